package rule

import "math/big"

// The model is a second implementation of the rule, slow and obvious, which shares only types with the first. It keeps plain
// lists of what was charged when, computes everything from them each time, and uses math/big.

// charged is one charge that a model keeps.
type charged struct {
	at    Micros
	units int64
}

// model is the state of one key. Call place before the other methods; it may move everything that is kept back in time,
// so copy the model first to keep the old one.
type model interface {
	copy() model
	// place returns the time that decides when the caller's time is now. It first moves back a model that is more than a
	// window ahead.
	place(l *Limit, now Micros) (at Micros, moved bool)
	// room returns what is free at the time that decides; it is negative if overdrawn.
	room(l *Limit, at Micros) int64
	// charge adds n units; refuse applies a refusal of n units that counts.
	charge(l *Limit, at Micros, n int64, id ID)
	refuse(l *Limit, at Micros, n int64)
	// back removes up to n units that were charged at moment, or the oldest, and returns how many it removed.
	back(l *Limit, at Micros, n int64, moment Micros, id ID) int64
	// written is called after a decision that stores the model, which may then drop what no longer counts.
	written(l *Limit, at Micros)
}

func newModel(l *Limit) model {
	switch l.Algorithm {
	case DefaultAlgorithm:
		return &defaultModel{}
	case SlidingLog:
		return &logModel{}
	case TokenBucket:
		return &bucketModel{missing: new(big.Rat)}
	case InFlight:
		return &slotsModel{}
	}
	if l.Calendar != 0 {
		return &calendarModel{}
	}
	return &windowModel{}
}

// modelItem is one limit of a request to models.
type modelItem struct {
	limit  *Limit
	model  model
	cost   int64
	used   int64  // Settle only
	moment Micros // GiveBack and Settle only
	id     ID

	now    Micros // the time of the request
	at     Micros
	room   int64
	moved  bool
	placed model // the model as of now; it becomes model when the decision stores it
}

// settled is the record of one reservation in a store's model: nil if it was not settled.
type settled []int64

// decideModels is Decide for models. The answers have no times, which checkModelTimes checks. The result of a Settle is
// stored in before, unless full.
func decideModels(op Op, items []modelItem, now Micros, before *settled, full bool) []Answer {
	answers := make([]Answer, len(items))
	all := true
	upTo := int64(MaxQuota)
	for i := range items {
		k := &items[i]
		k.now, k.placed = now, k.model.copy()
		k.at, k.moved = k.placed.place(k.limit, now)
		k.room = k.placed.room(k.limit, k.at)
		upTo = min(upTo, k.cost, max(k.room, 1))
	}
	for i := range items {
		if op == TakeUpTo {
			items[i].cost = upTo
		}
		all = all && items[i].admits()
	}
	if op == Settle {
		return settleModels(items, before, full)
	}
	for i := range items {
		k := &items[i]
		switch op {
		case Take, TakeUpTo:
			answers[i] = k.take(all)
		case Peek:
			answers[i] = k.answer(k.admits(), 0)
		case Charge:
			if k.cost > 0 {
				k.placed.charge(k.limit, k.at, k.cost, k.id)
				k.store()
			}
			answers[i] = k.answer(true, k.cost)
		case GiveBack:
			given := k.placed.back(k.limit, k.at, k.cost, k.moment, k.id)
			if given > 0 {
				k.store()
			}
			answers[i] = k.answer(true, given)
		case Reset:
			k.placed, k.moved = newModel(k.limit), false
			k.store()
			answers[i] = k.answer(true, 0)
		case Renew:
			answers[i] = k.renew()
		}
	}
	return answers
}

// settleModels replaces what was reserved with what was used, once.
func settleModels(items []modelItem, before *settled, full bool) (answers []Answer) {
	known := *before != nil
	var now settled
	for i := range items {
		k := &items[i]
		var back int64
		slot := k.limit.Algorithm == InFlight
		switch {
		case known:
			back = (*before)[i]
		case slot:
			back = k.placed.back(k.limit, k.at, 1, 1, k.id)
		case full:
		case k.used < k.cost:
			back = k.placed.back(k.limit, k.at, k.cost-k.used, k.moment, k.id)
		case k.used > k.cost:
			back = k.cost - k.used
			k.placed.charge(k.limit, k.at, -back, k.id)
		}
		if back != 0 && !known {
			k.store()
		}
		a := k.answer(true, back)
		if !slot && known {
			a.Flags |= Repeated
		} else if !slot && full {
			a.Flags |= Unsettled
		}
		answers, now = append(answers, a), append(now, back)
	}
	if !known && !full {
		*before = now
	}
	return answers
}

// holds reports whether the request holds a slot, which it then keeps however many there are.
func (k *modelItem) holds() bool {
	slots, ok := k.placed.(*slotsModel)
	return ok && slots.held(k.limit, k.at, k.id)
}

func (k *modelItem) renew() Answer {
	if k.limit.Algorithm != InFlight {
		return k.answer(true, 0)
	}
	if !k.holds() {
		return k.answer(false, 0)
	}
	k.placed.charge(k.limit, k.at, 1, k.id)
	k.store()
	return k.answer(true, 1)
}

func (k *modelItem) admits() bool {
	return k.cost <= k.room && k.cost <= k.limit.Capacity() || k.holds()
}

func (k *modelItem) take(all bool) Answer {
	switch {
	case !k.admits():
		if k.limit.CountRefused && k.cost > 0 && k.cost <= k.limit.Capacity() {
			k.placed.refuse(k.limit, k.at, k.cost)
			k.store()
		} else if k.moved {
			k.store()
		}
		return k.answer(false, 0)
	case !all:
		return k.answer(true, 0)
	case k.cost > 0:
		k.placed.charge(k.limit, k.at, k.cost, k.id)
		k.store()
	}
	return k.answer(true, k.cost)
}

func (k *modelItem) store() {
	k.placed.written(k.limit, k.at)
	k.model = k.placed
}

func (k *modelItem) answer(allowed bool, granted int64) Answer {
	at, _ := k.placed.place(k.limit, k.now)
	a := Answer{Allowed: allowed, Granted: granted, Remaining: max(0, k.placed.room(k.limit, at)), At: at}
	if k.moved {
		a.Flags = ClockMoved
	}
	return a
}

// checkModelTimes checks that the model agrees with the times in an answer, to the microsecond.
func (k *modelItem) checkModelTimes(t tb, a *Answer) {
	t.Helper()
	capacity := k.limit.Capacity()
	switch {
	case a.Allowed && a.RetryAfter != 0, !a.Allowed && (a.RetryAfter == Never) != (k.cost > capacity):
		t.Fatalf("cost %d with capacity %d, but RetryAfter is %d", k.cost, capacity, a.RetryAfter)
	case !a.Allowed && a.RetryAfter != Never && !k.turnsFree(a.RetryAfter, k.cost):
		t.Fatalf("cost %d does not begin to fit exactly %dus after %d: %+v", k.cost, a.RetryAfter, k.now, k.placed)
	case !k.turnsFree(a.ResetAfter, capacity):
		t.Fatalf("not everything becomes free exactly %dus after %d: %+v", a.ResetAfter, k.now, k.placed)
	case a.Allowed && a.Remaining == 0 && !k.turnsFree(a.NextAfter, 1):
		t.Fatalf("a unit does not become free exactly %dus after %d: %+v", a.NextAfter, k.now, k.placed)
	case (!a.Allowed || a.Remaining > 0) && a.NextAfter != 0:
		t.Fatalf("%+v, but NextAfter is %d", a, a.NextAfter)
	}
}

// turnsFree reports whether cost fits for the first time exactly after that much time.
func (k *modelItem) turnsFree(after Micros, cost int64) bool {
	return k.fits(k.now+after, cost) && (after == 0 || after > 0 && !k.fits(k.now+after-1, cost))
}

func (k *modelItem) fits(now Micros, cost int64) bool {
	later := k.placed.copy()
	at, _ := later.place(k.limit, now)
	return cost <= later.room(k.limit, at)
}
