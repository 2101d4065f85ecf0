package rule

// view is a state as of a given time, from which a decision is made. It is valid until its state changes, except that
// charge updates it.
type view struct {
	Now   Micros // the caller's time
	At    Micros // the time that decides: Now, or the state's own time if that is later
	Room  int64  // the largest cost that is admitted; negative if overdrawn
	Moved bool   // whether the state was more than a window ahead of Now, and is treated as if made now

	start  Micros // window algorithms: where the current part starts
	shift  int    // window algorithms: by how many parts the counts lag behind start
	debt   wide   // token-bucket: what is missing from a full bucket at At, in 1/Window of a unit
	until  Micros // token-bucket: when nothing is missing any more
	parts  bool   // no algorithm named: the state is in parts in which something counts
	live   int64  // sliding-log, in-flight: how many units count
	behind Micros // sliding-log, in-flight: by how much to move their times back

	hold  bool  // the request holds its units
	held  int64 // how many units are held
	open  int64 // how many reservations hold them
	ahead bool  // some of them were held more than a window ahead of Now, and are treated as if held now
}

// Answer is the answer of one limit to one request. A Store returns one for each charge. It is small enough to be returned
// in registers.
type Answer struct {
	// Allowed reports whether this limit admits the request. If another limit of the request refused it, nothing was
	// charged.
	Allowed bool
	Flags   Flags
	// Granted is how many units an admission charged, or how many units a GiveBack took back. A settlement takes back
	// Granted units or, if that is negative, charges -Granted more.
	Granted int64
	// Remaining is how many units were left right after the decision.
	Remaining int64
	// RetryAfter is how long after the caller's time the same cost is admitted if nothing else arrives: exactly then, and
	// not a microsecond earlier. It is 0 if allowed, and Never if the cost exceeds the capacity.
	RetryAfter Micros
	// ResetAfter is how long it takes until the whole quota is free again if nothing else arrives. With ClockMoved,
	// ResetAfter and RetryAfter start over in every answer to a request that writes nothing, such as a peek, until a
	// request is charged or refused.
	ResetAfter Micros
	// NextAfter is how long it takes until a unit is free if nothing else arrives. It is set if the request was allowed and
	// left no unit, and 0 otherwise.
	NextAfter Micros
	// At is the time that decided. A layer that decides in place of the store marks it, which makes it negative, so that units
	// are returned to where they were taken.
	At Micros
}

// Op is what a request does with its charges.
type Op uint8

// Operations.
const (
	Take     Op = iota // charge the cost to every limit if all admit, otherwise to none
	TakeUpTo           // charge as much of the cost as all admit, at least 1, otherwise nothing
	Peek               // return what Take would, and change nothing
	Charge             // charge the cost even beyond the quotas
	GiveBack           // take the cost back from the time At, or from the oldest units
	Reset              // forget the key
	Settle             // replace the cost of a reservation with what was used and release its slots, once; see DecideOnce
	Renew              // renew the slots of a reservation that are still held
)

// Oldest is the At of a GiveBack that takes the oldest live units, whenever they were charged.
const Oldest = Micros(0)

// Item is one limit of a request, with the state that the store loaded for it.
type Item struct {
	Limit *Limit
	State *State
	Cost  int64  // 0 to MaxQuota; in-flight: 0 or 1
	Used  int64  // Settle only: what was used of Cost
	At    Micros // GiveBack and Settle only: when Cost was charged
	ID    ID     // of the reservation or the call
	Hold  bool   // Take only: the units are held if the limit has Hold, instead of charged

	Changed bool // set by Decide: State differs from what was loaded and must be stored

	view view
}

// viewAt returns the view of s at now. It changes nothing.
func (l *Limit) viewAt(s *State, now Micros) (v view) {
	l.look(s, now, &v)
	return v
}

// look fills v, which must be the zero value. It works in place because a view is large enough for a copy to matter.
func (l *Limit) look(s *State, now Micros, v *view) {
	v.Now, v.At = now, now
	switch l.Algorithm {
	case DefaultAlgorithm:
		l.lookDefault(s, now, v)
	case SlidingLog:
		l.lookLog(s, now, v)
	case TokenBucket:
		l.lookBucket(s, now, v)
	case InFlight:
		l.lookSlots(s, now, v)
	default:
		l.lookWindow(s, now, v)
	}
	if len(s.Holds) > 0 {
		l.lookHolds(s, v)
	}
}

// admits reports whether cost is admitted.
func (l *Limit) admits(v *view, cost int64) bool { return cost <= v.Room && cost <= l.Capacity() }

// charge adds cost to s as of v, whether it fits or not, and keeps v up to date.
func (l *Limit) charge(s *State, v *view, cost int64, id ID) {
	l.writeHolds(s, v)
	switch l.Algorithm {
	case DefaultAlgorithm:
		l.chargeDefault(s, v, cost)
	case SlidingLog:
		l.chargeLog(s, v, cost)
	case TokenBucket:
		l.chargeBucket(s, v, cost)
	case InFlight:
		l.holdSlot(s, v, id)
	default:
		l.chargeWindow(s, v, cost)
	}
}

// wait returns how long after v.Now cost fits. Cost must not fit now, and must be at most the capacity.
func (l *Limit) wait(s *State, v *view, cost int64) Micros {
	if v.open > 0 {
		return l.waitWithHolds(s, v, cost)
	}
	return l.waitUsed(s, v, cost)
}

// waitUsed is wait without what is held.
func (l *Limit) waitUsed(s *State, v *view, cost int64) Micros {
	switch l.asKept(v) {
	case SlidingLog:
		return l.waitLog(s, v, cost)
	case TokenBucket:
		return l.waitBucket(v, cost)
	case InFlight:
		return l.waitSlots(s, v, cost)
	default:
		return l.waitWindow(s, v, cost)
	}
}

// retryAfter returns how long it takes until cost, which v does not admit, is admitted.
func (l *Limit) retryAfter(s *State, v *view, cost int64) Micros {
	if cost > l.Capacity() {
		return Never
	}
	return l.wait(s, v, cost)
}

// resetAfter returns how long it takes until nothing is in use.
func (l *Limit) resetAfter(s *State, v *view) Micros {
	if v.Room >= l.Capacity() {
		return 0
	}
	return l.wait(s, v, l.Capacity())
}

// Answer derives the answer from a state after the decision at now. A port of the rule that decided elsewhere passes the few
// integers it returned as s.
// Hold is whether the request was to hold its units.
func (l *Limit) Answer(s *State, now Micros, cost, granted int64, allowed, hold bool) Answer {
	var v view
	l.look(s, now, &v)
	v.hold = hold && l.Hold > 0
	return l.answer(s, &v, cost, granted, allowed)
}

func (l *Limit) answer(s *State, v *view, cost, granted int64, allowed bool) Answer {
	a := Answer{
		Allowed: allowed, Granted: granted, Remaining: max(0, v.Room),
		ResetAfter: l.resetAfter(s, v), At: v.At,
	}
	if !allowed {
		a.RetryAfter = l.retryAfter(s, v, cost)
	} else if a.Remaining == 0 {
		a.NextAfter = l.wait(s, v, 1)
	}
	if v.Moved || v.ahead {
		a.Flags |= ClockMoved
	}
	if v.open > 0 && !allowed {
		a.Flags |= Held
		if v.hold && v.open >= MaxHolds && cost <= v.Room {
			a.Flags |= HoldsFull
		}
	}
	return a
}

// TakeOne decides the most common request, Take with a single charge. It changes s in place and reports whether it did.
func (l *Limit) TakeOne(s *State, now Micros, cost int64) (a Answer, changed bool) {
	var v view
	l.look(s, now, &v)
	if l.admits(&v, cost) {
		if cost > 0 {
			l.charge(s, &v, cost, 0)
		}
		return l.answer(s, &v, cost, cost, true), cost > 0
	}
	changed = l.refuse(s, &v, cost)
	return l.answer(s, &v, cost, 0, false), changed
}

// refuse applies a refusal to s: it changes nothing unless refusals count. A state that the clock left far ahead is written
// back too; otherwise it would move along with the clock, and the time to retry would never come.
func (l *Limit) refuse(s *State, v *view, cost int64) (changed bool) {
	switch {
	case l.CountRefused && cost > 0 && cost <= l.Capacity():
		if l.Algorithm == TokenBucket {
			if changed = l.drainBucket(s, v) || v.ahead; changed {
				l.writeHolds(s, v)
			}
			return changed
		}
		l.charge(s, v, cost, 0)
		return true
	case v.Moved || v.ahead:
		l.writeBack(s, v)
		return true
	}
	return false
}

// writeBack writes v to s as far as the clock had left it ahead, and charges nothing.
func (l *Limit) writeBack(s *State, v *view) {
	if l.writeHolds(s, v); !v.Moved {
		return
	}
	switch l.asKept(v) {
	case SlidingLog:
		l.settleLog(s, v)
	case TokenBucket:
		l.moveBucket(s, v)
	case InFlight:
		l.writeSlots(s, v)
	default:
		if !s.absentWindow() {
			l.rollWindow(s, v)
		}
	}
}

// giveBack takes cost back and returns how much was taken back. A slot is found by its id, not by its time.
func (l *Limit) giveBack(s *State, v *view, cost int64, at Micros, id ID) int64 {
	given := l.giveBackUsed(s, v, cost, at, id)
	if given > 0 {
		l.writeHolds(s, v)
	}
	return given
}

func (l *Limit) giveBackUsed(s *State, v *view, cost int64, at Micros, id ID) int64 {
	switch l.Algorithm {
	case InFlight:
		if at == Oldest {
			return l.releaseOldest(s, v, cost)
		}
		return l.releaseSlot(s, v, id)
	case DefaultAlgorithm:
		return l.giveBackDefault(s, v, cost, at)
	case SlidingLog:
		return l.giveBackLog(s, v, cost, at)
	case TokenBucket:
		return l.giveBackBucket(s, v, cost, at)
	default:
		return l.giveBackWindow(s, v, cost, at)
	}
}

// Decide applies one request to the states of its items, all at the same time, and writes an answer for each. It is the
// only place that decides several limits together. No two items may share a state.
func Decide(op Op, items []Item, now Micros, answers []Answer) {
	for i := range items {
		items[i].look(now)
	}
	switch op {
	case Take:
		take(items, answers)
	case TakeUpTo:
		takeUpTo(items, answers)
	case Peek:
		for i := range items {
			it := &items[i]
			answers[i] = it.answer(0, it.admits())
		}
	case Settle:
		DecideOnce(op, false, items, &Memo{}, now, answers)
	default:
		for i := range items {
			answers[i] = items[i].apply(op)
		}
	}
}

// look begins the decision about an item.
func (it *Item) look(now Micros) {
	it.view, it.Changed = view{}, false
	it.Limit.look(it.State, now, &it.view)
	it.view.hold = it.Hold && it.Limit.Hold > 0
}

// admits reports whether the item's cost is admitted. What its id already holds does not count again: a caller that did not receive
// the answer can repeat the request even if it has taken the last slot or unit.
func (it *Item) admits() bool {
	l, v := it.Limit, &it.view
	if l.admits(v, it.Cost) && (!v.hold || v.open < MaxHolds) {
		return true
	}
	return l.Algorithm == InFlight && l.holdsSlot(it.State, v, it.ID) || v.hold && l.findHold(it.State, v, it.ID) >= 0
}

// charge charges the item's cost, or holds it, and returns how much that was.
func (it *Item) charge() int64 {
	l, s, v := it.Limit, it.State, &it.view
	if v.hold {
		l.writeBack(s, v)
		return l.hold(s, v, it.Cost, it.ID)
	}
	l.charge(s, v, it.Cost, it.ID)
	return it.Cost
}

func take(items []Item, answers []Answer) {
	all := true
	for i := range items {
		all = all && items[i].admits()
	}
	for i := range items {
		it := &items[i]
		switch allowed := it.admits(); {
		case !allowed:
			it.Changed = it.Limit.refuse(it.State, &it.view, it.Cost)
			answers[i] = it.answer(0, false)
		case all:
			granted := it.Cost
			if it.Cost > 0 {
				granted, it.Changed = it.charge(), true
			}
			answers[i] = it.answer(granted, true)
		default: // another limit refused the request
			answers[i] = it.answer(0, true)
		}
	}
}

// takeUpTo grants the least that any limit has left. If that is nothing, it is a refusal of a cost of 1.
func takeUpTo(items []Item, answers []Answer) {
	grant := int64(MaxQuota)
	for i := range items {
		grant = min(grant, items[i].Cost, max(1, items[i].view.Room))
	}
	for i := range items {
		items[i].Cost = grant
	}
	take(items, answers)
}

func (it *Item) apply(op Op) Answer {
	l, s := it.Limit, it.State
	var units int64
	switch op {
	case Renew:
		return it.renew()
	case Charge:
		units = it.Cost
		it.Changed = units > 0
		if it.Changed {
			l.charge(s, &it.view, units, it.ID)
		}
	case GiveBack:
		units = l.giveBack(s, &it.view, it.Cost, it.At, it.ID)
		it.Changed = units > 0
	case Reset:
		it.Changed = true
		s.reset()
	}
	it.lookAgain(op != Reset)
	return it.answer(units, true)
}

// lookAgain renews the view after the state changed. If writing moved the state back, the answer must still report that.
func (it *Item) lookAgain(keepMoved bool) {
	now, moved, hold := it.view.Now, (it.view.Moved || it.view.ahead) && keepMoved, it.view.hold
	it.view = view{hold: hold}
	it.Limit.look(it.State, now, &it.view)
	it.view.Moved = it.view.Moved || moved
}

// renew renews what the item's id holds, a slot or units, and refuses the request if it no longer holds it. Other limits have nothing to
// renew.
func (it *Item) renew() Answer {
	l := it.Limit
	switch {
	case l.Hold > 0 && l.findHold(it.State, &it.view, it.ID) < 0:
		return it.refusal()
	case l.Hold > 0:
		l.writeBack(it.State, &it.view)
		it.Changed = true
		return it.answer(l.hold(it.State, &it.view, 0, it.ID), true)
	case l.Algorithm != InFlight:
		return it.answer(0, true)
	}
	if !l.holdsSlot(it.State, &it.view, it.ID) {
		return it.refusal()
	}
	l.holdSlot(it.State, &it.view, it.ID)
	it.Changed = true
	return it.answer(1, true)
}

// refusal returns the answer to a request that is refused for good, however much is left.
func (it *Item) refusal() Answer {
	a := it.answer(0, true)
	if a.Allowed, a.NextAfter, a.RetryAfter = false, 0, Never; it.view.open > 0 {
		a.Flags |= Held
	}
	return a
}

func (it *Item) answer(granted int64, allowed bool) Answer {
	return it.Limit.answer(it.State, &it.view, it.Cost, granted, allowed)
}
