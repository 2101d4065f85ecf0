package rule

// Memo is what a store remembers of one reservation: whether it was settled, and with which result.
type Memo struct {
	Known    bool    // set by the store: it was settled before, with the result Returned
	Full     bool    // set by the store: it cannot remember another settlement
	Returned []int64 // one number per item: how many units were given back or, if negative, charged in addition
	// Changed is set by DecideSettle: the reservation was settled now, and the store must save either both Returned and
	// the states, or neither.
	Changed bool
}

// Bounds of how many settlements a store remembers for the address of a reservation's first charge.
const (
	minSettlements = 1_000
	maxSettlements = 250_000
)

// LongMemory is how long a settlement is remembered if Memory is shorter, as far as there is space: long enough for a caller
// that did not receive the answer to repeat the request.
const LongMemory = Micros(10 * 60 * 1e6)

// Settlements returns how many settlements a store remembers for one address under l, during the time that Memory returns:
// four times the units of the limit. Reservations of one unit each do not reach that, even if all are settled.
func (l *Limit) Settlements() int64 {
	return min(max(4*min(l.Capacity(), maxSettlements), minSettlements), maxSettlements)
}

// Memory returns how long a settlement under l must be remembered: longer than a unit charged at the same time counts, by a
// part of the window. It is 0 for an in-flight limit, whose slots are released by their id, which can safely be repeated.
func (l *Limit) Memory() Micros {
	switch l.Algorithm {
	case InFlight:
		return 0
	case SlidingWindow, DefaultAlgorithm:
		return Micros(l.Parts()) * l.part()
	case TokenBucket:
		return max(l.Window, Micros(l.deepestDebt().overUp(l.Quota)))
	default:
		return l.Window + (l.Window+59)/60
	}
}

// SettledAt returns the time of a settlement, by which it is remembered: the time of the keys, as long as the units of the
// reservation count. That is later than now if the clock was set back after the units were charged.
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

// DecideSettle ends a reservation: it replaces the Cost of each item with what was Used, and releases slots. Units
// given back are taken from the time At; units used beyond Cost are charged now, even beyond the quota. It does so
// once: if memo is Known, it changes nothing, and the answers report what was done then. If memo is Full, it only
// releases slots.
//
// A store looks up the memo by the address of the first item and the items' ID. It need not do so if Memory is 0 for all
// items.
func DecideSettle(items []Item, memo *Memo, now Micros, answers []Answer) {
	var flag Flags
	switch {
	case memo.Known:
		flag = Repeated
	case memo.Full:
		flag = Unsettled
	default:
		memo.Returned = memo.Returned[:0]
	}
	for i := range items {
		it := &items[i]
		it.look(now)
		var back int64
		switch slot := it.Limit.Algorithm == InFlight; {
		case memo.Known:
			if i < len(memo.Returned) {
				back = memo.Returned[i]
			}
		case !memo.Full || slot:
			back = it.settle()
		}
		it.lookAgain(true)
		answers[i] = it.answer(back, true)
		if it.Limit.Algorithm != InFlight {
			answers[i].Flags |= flag
		}
		if flag == 0 {
			memo.Returned = append(memo.Returned, back)
			memo.Changed = memo.Changed || it.Limit.Memory() > 0
		}
	}
}

// settle replaces the item's cost with what was used. It returns how many units were given back or, if negative, how many
// were charged.
func (it *Item) settle() (back int64) {
	l, s, v := it.Limit, it.State, &it.view
	switch {
	case l.Algorithm == InFlight:
		back = l.releaseSlot(s, v, it.ID)
	case it.Used < it.Cost:
		back = l.giveBack(s, v, it.Cost-it.Used, it.At, it.ID)
	case it.Used > it.Cost:
		back = it.Cost - it.Used
		l.charge(s, v, -back, it.ID)
	}
	it.Changed = back != 0
	return back
}
