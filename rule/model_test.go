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
	if l.Algorithm == InFlight {
		return &slotsModel{}
	}
	return &heldModel{model: newUsedModel(l)}
}

func newUsedModel(l *Limit) model {
	switch l.Algorithm {
	case DefaultAlgorithm:
		return &defaultModel{}
	case SlidingLog:
		return &logModel{}
	case TokenBucket:
		return &bucketModel{missing: new(big.Rat)}
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
	hold   bool // Take only

	now    Micros // the time of the request
	at     Micros
	room   int64
	moved  bool
	placed model // the model as of now; it becomes model when the decision stores it
}

// remembered is the record of one ID in a store's model.
type remembered struct {
	called, settled, cancelled bool
	took                       []modelTook // by a call
	back                       []int64     // by a settlement
}

type modelTook struct {
	at    Micros
	units int64
	held  bool
}

// decideModels is Decide for models, or DecideOnce if once is set. The answers have no times, which checkModelTimes checks. The result
// of a Settle or of a call is stored in before, unless full.
func decideModels(op Op, items []modelItem, now Micros, before *remembered, full, once bool) []Answer {
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
		return settleModels(items, before, full, once)
	}
	if once && (before.called || before.settled) {
		return repeatModels(items, before)
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
	if once && all {
		callModels(items, answers, before, full)
	}
	return answers
}

// callModels remembers a call that was admitted.
func callModels(items []modelItem, answers []Answer, before *remembered, full bool) {
	for i := range items {
		if full {
			answers[i].Flags |= NotOnce
			continue
		}
		before.called = true
		before.took = append(before.took, modelTook{answers[i].At, answers[i].Granted, items[i].isHold() && answers[i].Granted > 0})
	}
}

// repeatModels answers a call that was made before, or cancelled.
func repeatModels(items []modelItem, before *remembered) (answers []Answer) {
	for i := range items {
		k := &items[i]
		a := k.answer(!before.cancelled, 0)
		switch {
		case before.cancelled:
			a.RetryAfter = Never
		case before.settled:
			a.Granted = k.cost
		default:
			if a.Granted = before.took[i].units; before.took[i].at > 0 {
				a.At = before.took[i].at
			}
		}
		a.Flags |= Repeated
		answers = append(answers, a)
	}
	return answers
}

// settleModels replaces what was reserved with what was used, once.
func settleModels(items []modelItem, before *remembered, full, byID bool) (answers []Answer) {
	known := before.settled
	now := remembered{called: before.called, settled: true, cancelled: true}
	lasting := byID
	for i := range items {
		k := &items[i]
		var back int64
		slot := k.limit.Algorithm == InFlight
		lasting = lasting || !slot
		now.cancelled = now.cancelled && k.used == 0
		took := modelTook{k.moment, k.cost, k.limit.Hold > 0}
		if byID {
			took = modelTook{}
			if before.called && i < len(before.took) {
				took = before.took[i]
			}
			took.held = took.held || took.units == 0
		}
		switch {
		case known:
			back = before.back[i]
		case slot:
			back = k.placed.back(k.limit, k.at, 1, 1, k.id)
		case full:
		case took.held:
			held := k.placed.(*heldModel)
			open := held.holds(k.at, k.id)
			back = held.end(k.at, k.id) - k.used
			if k.used > 0 {
				held.charge(k.limit, k.at, k.used, k.id)
				k.store()
			} else if open {
				k.storeHolds()
			}
		case k.used < took.units:
			back = k.placed.back(k.limit, k.at, took.units-k.used, took.at, k.id)
		case k.used > took.units:
			back = took.units - k.used
			k.placed.charge(k.limit, k.at, -back, k.id)
		}
		if back != 0 && !known && (slot || !took.held) {
			k.store()
		}
		a := k.answer(true, back)
		if known && (!slot || byID) {
			a.Flags |= Repeated
		} else if full && (!slot || byID) {
			a.Flags |= Unsettled
		}
		answers, now.back = append(answers, a), append(now.back, back)
	}
	if !known && !full && lasting {
		*before = now
	}
	return answers
}

// holds reports whether the request holds a slot or units, which it then keeps however much is left.
func (k *modelItem) holds() bool {
	switch m := k.placed.(type) {
	case *slotsModel:
		return m.held(k.limit, k.at, k.id)
	case *heldModel:
		return m.holds(k.at, k.id)
	}
	return false
}

// isHold reports whether the request holds its units.
func (k *modelItem) isHold() bool { return k.hold && k.limit.Hold > 0 }

func (k *modelItem) renew() Answer {
	if k.limit.Hold > 0 {
		if !k.holds() {
			return k.answer(false, 0)
		}
		units := k.placed.(*heldModel).hold(k.limit, k.at, 0, k.id)
		k.storeHolds()
		return k.answer(true, units)
	}
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
	return k.cost <= k.room && k.cost <= k.limit.Capacity() || (k.limit.Algorithm == InFlight || k.isHold()) && k.holds()
}

func (k *modelItem) take(all bool) Answer {
	switch {
	case !k.admits():
		if k.limit.CountRefused && k.cost > 0 && k.cost <= k.limit.Capacity() && !k.isDrained() {
			k.placed.refuse(k.limit, k.at, k.cost)
			k.store()
		} else if k.moved {
			k.storeHolds()
		}
		return k.answer(false, 0)
	case !all:
		return k.answer(true, 0)
	case k.cost > 0 && k.isHold():
		units := k.placed.(*heldModel).hold(k.limit, k.at, k.cost, k.id)
		k.storeHolds()
		return k.answer(true, units)
	case k.cost > 0:
		k.placed.charge(k.limit, k.at, k.cost, k.id)
		k.store()
	}
	return k.answer(true, k.cost)
}

// storeHolds is store for a decision that charges nothing, and gives back nothing that was charged.
func (k *modelItem) storeHolds() {
	if m, ok := k.placed.(*heldModel); ok {
		m.writtenHolds(k.limit, k.at)
		k.model = k.placed
	} else {
		k.store()
	}
}

// isDrained reports whether there is nothing that a refusal could take.
func (k *modelItem) isDrained() bool {
	m, ok := k.placed.(*heldModel)
	if !ok {
		return false
	}
	bucket, ok := m.model.(*bucketModel)
	return ok && bucket.owed(k.limit, k.at).Cmp(new(big.Rat).SetInt64(k.limit.Burst)) >= 0
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
	if m, ok := k.placed.(*heldModel); ok && !allowed {
		if open, _ := m.open(at); len(open) > 0 {
			a.Flags |= Held
		}
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
