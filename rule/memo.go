package rule

// Memo is what a store remembers of one ID at one address: that a reservation was settled, or that a call was made that counts once. It
// is found by the address of the first charge and the ID alone, whatever the limits are by then.
type Memo struct {
	Known  bool    // set by the store: Record is what was remembered
	Full   bool    // set by the store: it cannot remember another ID
	Record []int64 // what to remember; DecideOnce writes it, and stores keep it as it is
	// Changed is set by DecideOnce: the store must save either both Record and the states, or neither.
	Changed bool
}

// A record begins with what happened.
const (
	wasSettled   = 0 // then for each item how many units were given back or, if negative, charged in addition
	wasCancelled = 1 // the same: nothing was used, so the call of this ID is refused if it arrives later
	wasCalled    = 2 // then for each item the time of the charge, and the units; they are negative if they were held
)

// kind returns what happened; a memo without a record is one of a call that is not known.
func (m *Memo) kind() int64 {
	if !m.Known || len(m.Record) == 0 {
		return -1
	}
	return m.Record[0]
}

// Settled reports whether the reservation was settled or cancelled, and not only called, so that a settlement changes nothing.
func (m *Memo) Settled() bool { return m.kind() == wasSettled || m.kind() == wasCancelled }

// back returns what a settlement gave back of an item.
func (m *Memo) back(item int) int64 {
	if 1+item < len(m.Record) {
		return m.Record[1+item]
	}
	return 0
}

// called returns what a call took of an item.
func (m *Memo) called(item int) (at Micros, units int64, held bool) {
	if m.kind() != wasCalled || 2+2*item >= len(m.Record) {
		return 0, 0, false
	}
	at, units = Micros(m.Record[1+2*item]), min(max(m.Record[2+2*item], -MaxQuota), MaxQuota)
	return min(max(at, 0), MaxNow), max(units, -units), units < 0
}

// Bounds of how many IDs a store remembers for one address.
const (
	minSettlements = 1_000
	maxSettlements = 250_000
)

// LongMemory is how long an ID is remembered if Memory is shorter, as far as there is space: long enough for a caller that did not
// receive the answer to repeat the request.
const LongMemory = Micros(10 * 60 * 1e6)

// Settlements returns how many IDs a store remembers for one address under l, during the time that Memory returns: four times the units
// that the limit admits in that time. Requests of one unit each do not reach that, even if all have an ID.
func (l *Limit) Settlements() int64 {
	units := min(l.Capacity(), maxSettlements)
	if l.Hold > 0 { // it is longer than a window, and as many units can be settled in each of the windows
		units *= int64(min((l.Memory()+l.Window-1)/l.Window, maxSettlements))
	}
	return min(max(4*units, minSettlements), maxSettlements)
}

// Memory returns how long an ID under l must be remembered: longer than a unit charged at the same time counts, by a part of the window,
// and longer by Hold if units are held.
func (l *Limit) Memory() Micros {
	switch l.Algorithm {
	case SlidingWindow, DefaultAlgorithm:
		return Micros(l.Parts())*l.part() + l.Hold
	case TokenBucket:
		return max(l.Window, Micros(l.deepestDebt().overUp(l.Quota))) + l.Hold
	default:
		return l.Window + (l.Window+59)/60 + l.Hold
	}
}

// SettledAt returns the time by which an ID is remembered: the time of the keys, as long as the units of the request count. That is
// later than now if the clock was set back after the units were charged.
func SettledAt(items []Item, now Micros) Micros {
	at := now
	for i := range items {
		it := &items[i]
		if it.Limit.Algorithm != InFlight {
			v := it.Limit.viewAt(it.State, now)
			at = max(at, v.At, min(it.At, MaxNow))
		}
	}
	return at
}

// DecideOnce decides a Settle, or a Take that counts once. A store looks the memo up by the address of the first item and the items' ID,
// and saves it if it Changed.
//
// A Settle ends a reservation: it replaces the Cost of each item with what was Used, and releases slots. Units given back are taken from
// the time At; units used beyond Cost are charged now, even beyond the quota; units that were held are charged now, as far as they were
// used. It does so once: if the memo says that it was settled, nothing changes, and the answers report what was done then. If the memo is
// Full, it only releases slots. ByID means that At and Cost are those of the call with this ID, not of the items; if there was none, the memo says
// that it was cancelled.
//
// A Take is decided unless the call was made before, which changes nothing and answers what it did; a cancelled call is refused for
// good. Only an admission is remembered. If the memo is Full, it is charged and not remembered.
func DecideOnce(op Op, byID bool, items []Item, memo *Memo, now Micros, answers []Answer) {
	if op == Settle {
		settle(items, byID, memo, now, answers)
	} else {
		takeOnce(items, memo, now, answers)
	}
}

func takeOnce(items []Item, memo *Memo, now Micros, answers []Answer) {
	for i := range items {
		items[i].look(now)
	}
	if kind := memo.kind(); kind >= 0 {
		for i := range items {
			answers[i] = items[i].repeated(memo, i)
		}
		return
	}
	take(items, answers)
	admitted := true
	for i := range items {
		admitted = admitted && answers[i].Allowed
	}
	switch {
	case !admitted:
	case memo.Full:
		for i := range items {
			answers[i].Flags |= NotOnce
		}
	default:
		memo.Changed, memo.Record = true, append(memo.Record[:0], wasCalled)
		for i := range items {
			units := answers[i].Granted
			if items[i].view.hold {
				units = -units
			}
			memo.Record = append(memo.Record, int64(answers[i].At), units)
		}
	}
}

// repeated answers a call that was made, or cancelled, before.
func (it *Item) repeated(memo *Memo, item int) Answer {
	var a Answer
	switch memo.kind() {
	case wasCancelled:
		a = it.refusal()
	case wasCalled:
		at, units, _ := memo.called(item)
		if a = it.answer(units, true); at > 0 {
			a.At = at
		}
	default:
		a = it.answer(it.Cost, true)
	}
	a.Flags |= Repeated
	return a
}

func settle(items []Item, byID bool, memo *Memo, now Micros, answers []Answer) {
	var flag Flags
	known := memo.Settled()
	lasting := byID // what only releases slots need not be remembered: repeating it changes nothing
	for i := range items {
		lasting = lasting || items[i].Limit.Algorithm != InFlight
	}
	var record []int64
	switch {
	case known:
		flag = Repeated
	case memo.Full:
		flag = Unsettled
	case lasting:
		record = append(make([]int64, 0, 1+len(items)), wasCancelled)
	}
	for i := range items {
		it := &items[i]
		it.look(now)
		var back int64
		switch slot := it.Limit.Algorithm == InFlight; {
		case known:
			back = memo.back(i)
		case !memo.Full || slot:
			back = it.settle(byID, memo, i)
		}
		it.lookAgain(true)
		answers[i] = it.answer(back, true)
		if it.Limit.Algorithm != InFlight || byID {
			answers[i].Flags |= flag
		}
		if record == nil {
			continue
		}
		if record = append(record, back); it.Used > 0 {
			record[0] = wasSettled
		}
	}
	if record != nil {
		memo.Record, memo.Changed = record, true
	}
}

// settle replaces the item's cost with what was used. It returns how many units were given back or, if negative, how many
// were charged.
func (it *Item) settle(byID bool, memo *Memo, item int) (back int64) {
	l, s, v := it.Limit, it.State, &it.view
	cost, at, held := it.Cost, it.At, l.Hold > 0
	if byID {
		at, cost, held = memo.called(item)
	}
	switch {
	case l.Algorithm == InFlight:
		back = l.releaseSlot(s, v, it.ID)
	case held || byID && cost == 0:
		back = it.settleHold()
	case it.Used < cost:
		back = l.giveBack(s, v, cost-it.Used, at, it.ID)
	case it.Used > cost:
		back = cost - it.Used
		l.charge(s, v, -back, it.ID)
	}
	it.Changed = it.Changed || back != 0
	return back
}

// settleHold ends the hold of the item's id, if it has not ended yet, and charges what was used in any case.
func (it *Item) settleHold() (back int64) {
	l, s, v := it.Limit, it.State, &it.view
	units, open := l.endHold(s, v, it.ID)
	if it.Changed = open || it.Used > 0; it.Used > 0 {
		l.charge(s, v, it.Used, it.ID)
	}
	return units - it.Used
}
