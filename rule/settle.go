package rule

// Memo is what a store remembers of one reservation: that it was settled, and what that did.
type Memo struct {
	Known bool    // set by the store: it was settled before, and Back is what was done then
	Full  bool    // set by the store: it cannot remember another settlement
	Back  []int64 // one number per item: how many units were given back, or minus how many were charged
	// Changed is set by DecideSettle: the reservation was settled now, and the store must remember Back with the states, or
	// neither.
	Changed bool
}

// The bounds of how many settlements a store remembers for the address of a reservation's first charge.
const (
	minSettlements = 1_000
	maxSettlements = 250_000
)

// Settlements returns how many settlements a store remembers for one address under l, in a stretch of time as long as Memory:
// four times as many as the limit has units. Reservations that all take one unit, and are all settled, do not reach that.
func (l *Limit) Settlements() int64 {
	return min(max(4*min(l.Capacity(), maxSettlements), minSettlements), maxSettlements)
}

// Memory returns for how long a settlement under l must be remembered: as long as a unit counts that is charged at the same
// time. It is 0 for an in-flight limit, whose slots are released by their id: that can be done any number of times.
func (l *Limit) Memory() Micros {
	switch l.Algorithm {
	case InFlight:
		return 0
	case SlidingLog:
		return l.Window
	case TokenBucket:
		return max(l.Window, Micros(l.deepestDebt().overUp(l.Quota)))
	default:
		return Micros(l.Parts()) * l.part()
	}
}

// DecideSettle ends a reservation: it replaces the Cost of each item by what was Used, and releases slots. What is given back
// is taken from the moment At; what was used beyond Cost is charged now, beyond the quota if need be. It does so once: if memo
// is Known it changes nothing, and answers what was done then. If memo is Full it changes nothing but to release slots.
//
// A store looks up the memo by the address of the first item and the items' ID. It need not if Memory is 0 for all of them.
func DecideSettle(items []Item, memo *Memo, now Micros, answers []Answer) {
	var flag Flags
	switch {
	case memo.Known:
		flag = Repeated
	case memo.Full:
		flag = Unsettled
	default:
		memo.Back = memo.Back[:0]
	}
	for i := range items {
		it := &items[i]
		it.look(now)
		var back int64
		switch slot := it.Limit.Algorithm == InFlight; {
		case memo.Known:
			if i < len(memo.Back) {
				back = memo.Back[i]
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
			memo.Back = append(memo.Back, back)
			memo.Changed = memo.Changed || it.Limit.Memory() > 0
		}
	}
}

// settle replaces the item's cost by what was used, and returns how many units that gave back, or minus how many it charged.
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
