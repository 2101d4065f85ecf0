package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkOnce: a call with an ID counts once, whatever else is sent with that ID later, and can be cancelled by its ID, also before it
// arrives.
func checkOnce(t testing.TB, s *suite) {
	o := &calls{holds: &holds{defaults: &defaults{pair: s.pair(t)}}}
	for i, limit := range smallLimits() {
		limit.Name = fmt.Sprintf("once-%d", i)
		bound := o.bind(limit)
		if bound == nil || limit.CountRefused {
			continue
		}
		o.script(bound)
		o.cancelled(bound)
		o.remembered(bound)
		o.ended(bound)
		for round := range s.times(5) {
			o.race(bound, fmt.Sprintf("race-%d", round))
		}
	}
	o.underOtherLimits()
	o.settledCall()
	o.slots()
	o.full()
	if o.store.Traits().MaxCharges > 1 {
		o.severalLimits()
	}
}

// calls plays scripts of calls that count once, over limits of 30 a minute.
type calls struct{ *holds }

// sends makes a call, or cancels one, and checks the decision.
func (o *calls) sends(op rule.Op, limit *store.Limit, id rule.ID, cost int64, allowed bool, granted, left int64, flags rule.Flags) rule.Answer {
	o.t.Helper()
	c := store.Charge{Limit: limit, Key: o.key, Cost: cost}
	if op == rule.Settle {
		c.Cost = 0
	}
	a := o.bothRequest(store.Request{Op: op, ID: id, Once: true, Charges: []store.Charge{c}})[0]
	if a.Allowed != allowed || a.Granted != granted || a.Remaining != left || a.Flags != flags {
		o.fatalf("got %+v, want allowed %v, %d granted, %d left and flags %v", a, allowed, granted, left, flags)
	}
	return a
}

func (o *calls) script(limit *store.Limit) {
	o.t.Helper()
	o.begin("once")
	id, large := o.newID(), o.newID()
	first := o.sends(rule.Take, limit, id, 4, true, 4, 26, 0)
	o.moveBy(1)
	if a := o.sends(rule.Take, limit, id, 4, true, 4, 26, rule.Repeated); a.At != first.At {
		o.fatalf("a repeated call: got %+v, want the time of the first, %d", a, first.At)
	}
	o.sends(rule.Take, limit, id, 29, true, 4, 26, rule.Repeated) // what the first did
	o.sends(rule.Take, limit, large, 27, false, 0, 26, 0)
	o.sends(rule.Take, limit, large, 26, true, 26, 0, 0) // a refusal is not remembered
	o.sends(rule.Take, limit, large, 26, true, 26, 0, rule.Repeated)
	o.sends(rule.Take, limit, o.newID(), 0, true, 0, 0, 0) // nothing
	o.single(rule.Reset, limit, o.key, 0)
	o.sends(rule.Take, limit, id, 4, true, 4, 30, rule.Repeated) // a reset forgets what was counted, not what was called
}

func (o *calls) cancelled(limit *store.Limit) {
	o.t.Helper()
	o.begin("cancelled")
	id, early := o.newID(), o.newID()
	o.sends(rule.Take, limit, id, 10, true, 10, 20, 0)
	o.sends(rule.Settle, limit, id, 0, true, 10, 30, 0)
	o.sends(rule.Settle, limit, id, 0, true, 10, 30, rule.Repeated)
	late := func(id rule.ID) {
		o.t.Helper()
		if a := o.sends(rule.Take, limit, id, 10, false, 0, 30, rule.Repeated); a.RetryAfter != rule.Never {
			o.fatalf("a call after its cancellation: got %+v, want it refused for good", a)
		}
	}
	late(id)
	o.sends(rule.Settle, limit, early, 0, true, 0, 30, 0) // before its call
	late(early)
	o.sends(rule.Settle, limit, early, 0, true, 0, 30, rule.Repeated)
	late(early)
}

// remembered: an ID is known for longer than a unit charged at the same time counts, and for rule.LongMemory while there is space.
func (o *calls) remembered(limit *store.Limit) {
	o.t.Helper()
	o.begin("remembered")
	memory, start := limit.Rule().Memory(), o.clock.Now()
	id, early := o.newID(), o.newID()
	o.sends(rule.Take, limit, id, 4, true, 4, 26, 0)
	o.sends(rule.Settle, limit, early, 0, true, 0, 26, 0)
	for _, after := range []rule.Micros{memory / 2, memory - 1, memory, 2*memory + 1, rule.LongMemory - 1} {
		o.moveTo(start + after)
		o.single(rule.Charge, limit, o.key, 1)
		call := store.Request{Op: rule.Take, Once: true, Charges: []store.Charge{{Limit: limit, Key: o.key, Cost: 4}}}
		call.ID = id
		if a := o.bothRequest(call)[0]; a.Flags != rule.Repeated || a.Granted != 4 {
			o.fatalf("a call %dus later: got %+v, want it repeated", after, a)
		}
		call.ID = early
		if a := o.bothRequest(call)[0]; a.Flags != rule.Repeated || a.Allowed {
			o.fatalf("a call cancelled %dus ago: got %+v, want it refused", after, a)
		}
	}
}

// ended: with a context that has ended nothing is charged, and nothing is remembered.
func (o *calls) ended(limit *store.Limit) {
	o.t.Helper()
	o.begin("ended")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	call := store.Request{Op: rule.Take, ID: o.newID(), Once: true, Charges: []store.Charge{{Limit: limit, Key: o.key, Cost: 4}}}
	if _, err := decideFull(ended, o.store.Apply, call); !errors.Is(err, context.Canceled) {
		o.fatalf("with a context that has ended: got the error %v, want context.Canceled", err)
	}
	o.sends(rule.Take, limit, call.ID, 4, true, 4, 26, 0)
}

// race sends a call many times at the same time: it is charged once.
func (o *calls) race(limit *store.Limit, key string) {
	o.t.Helper()
	o.title = "once race"
	call := store.Request{Op: rule.Take, ID: o.newID(), Once: true, Charges: []store.Charge{{Limit: limit, Key: key, Cost: 4}}}
	var first atomic.Int64
	o.pair.race(workers, func(ctx context.Context, _ int) error {
		a, err := decideRequest(ctx, o.store.Apply, call)
		if err == nil && (!a.Allowed || a.Granted != 4 || a.Remaining != 26) {
			err = fmt.Errorf("a call among repeats: got %+v, want 4 of 30 granted", a)
		}
		if a.Flags&rule.Repeated == 0 {
			first.Add(1)
		}
		return err
	})
	if n := first.Load(); n != 1 {
		o.fatalf("%d of %d equal calls were the first, want 1", n, workers)
	}
}

// underOtherLimits: an ID is found by its address, whatever the quota or the hold is by then.
func (o *calls) underOtherLimits() {
	o.t.Helper()
	l := rule.Limit{Quota: 30, Window: second}
	large, held := l, l
	large.Quota, held.Hold = 600, minute
	a, b, c := o.bindRule("once-other", l), o.bindRule("once-other", large), o.bindRule("once-other", held)
	if a == nil || b == nil || c == nil {
		return
	}
	o.begin("once, other limits")
	id, long := o.newID(), o.newID()
	o.sends(rule.Take, a, id, 4, true, 4, 26, 0)
	o.sends(rule.Take, b, id, 4, true, 4, 596, rule.Repeated)
	o.sends(rule.Take, c, id, 4, true, 4, 26, rule.Repeated)
	o.sends(rule.Take, c, long, 4, true, 4, 22, 0) // remembered for its hold, although the window is a second
	for i := range rule.Micros(3) {
		o.at((10 + 20*i) * second)
		for range 3 {
			o.sends(rule.Take, b, o.newID(), 0, true, 0, 600, 0)
		}
		o.sends(rule.Take, a, long, 4, true, 4, 30, rule.Repeated)
	}
	o.sends(rule.Settle, b, id, 0, true, 0, 600, 0) // it has left the window
	o.sends(rule.Take, a, id, 4, false, 0, 30, rule.Repeated)
}

// settledCall: a reservation of a call is settled as usual, and then its call changes nothing.
func (o *calls) settledCall() {
	o.t.Helper()
	limit := o.bindRule("once-held", rule.Limit{Quota: 10, Window: second, Hold: minute})
	if limit == nil {
		return
	}
	o.begin("settled call")
	send := func(op rule.Op, id rule.ID, cost, used int64, hold, once bool) rule.Answer {
		o.t.Helper()
		return o.bothRequest(store.Request{Op: op, ID: id, Hold: hold, Once: once, Charges: []store.Charge{
			{Limit: limit, Key: o.key, Cost: cost, Used: used, At: o.clock.Now()},
		}})[0]
	}
	want := func(a rule.Answer, allowed bool, granted, left int64, flags rule.Flags) {
		o.t.Helper()
		if a.Allowed != allowed || a.Granted != granted || a.Remaining != left || a.Flags != flags {
			o.fatalf("got %+v, want allowed %v, %d granted, %d left, flags %v", a, allowed, granted, left, flags)
		}
	}
	id, other := o.newID(), o.newID()
	want(send(rule.Take, id, 4, 0, true, true), true, 4, 6, 0)
	want(send(rule.Take, id, 4, 0, true, true), true, 4, 6, rule.Repeated)
	o.at(5 * second)
	want(send(rule.Renew, id, 4, 0, false, false), true, 4, 6, 0)
	want(send(rule.Settle, id, 4, 3, false, false), true, 1, 7, 0)
	want(send(rule.Take, id, 4, 0, true, true), true, 4, 7, rule.Repeated) // it does not hold again
	want(send(rule.Settle, id, 0, 0, false, true), true, 1, 7, rule.Repeated)
	want(send(rule.Take, other, 5, 0, true, true), true, 5, 2, 0)
	want(send(rule.Settle, other, 0, 0, false, true), true, 5, 7, 0) // cancelled by its ID
	want(send(rule.Renew, other, 5, 0, false, false), false, 0, 7, 0)
}

// slots: a slot that is acquired by a call is acquired once, and released by the ID of the call.
func (o *calls) slots() {
	o.t.Helper()
	limit := o.bindRule("once-slots", rule.Limit{Algorithm: rule.InFlight, Quota: 3, Window: 30 * second})
	if limit == nil {
		return
	}
	o.begin("slots of calls")
	id := o.newID()
	o.sends(rule.Take, limit, id, 1, true, 1, 2, 0)
	o.sends(rule.Take, limit, id, 1, true, 1, 2, rule.Repeated)
	o.sends(rule.Settle, limit, id, 0, true, 1, 3, 0)
	o.sends(rule.Take, limit, id, 1, false, 0, 3, rule.Repeated)
}

// full: the memory of IDs is bounded. When it is full, calls are charged and flagged; later there is space again.
func (o *calls) full() {
	o.t.Helper()
	limit := o.bindRule("once-full", rule.Limit{Algorithm: rule.SlidingLog, Quota: 5, Window: minute})
	if limit == nil {
		return
	}
	o.begin("calls are bounded")
	send := func(op rule.Op, id rule.ID, n int) []store.Request {
		o.t.Helper()
		batch := make([]store.Request, n)
		for i := range batch {
			batch[i] = newRequest(op, "", store.Charge{Limit: limit, Key: o.key, Cost: 1})
			batch[i].ID, batch[i].Once = id+rule.ID(i), op != rule.Reset
		}
		if err := o.store.Apply(context.Background(), batch); err != nil {
			o.fatalf("the store failed: %v", err)
		}
		return batch
	}
	first := send(rule.Take, 1<<50, 1)[0].Answers[0]
	unsettled, most := 0, 4*limit.Rule().Settlements()
	for id := int64(1); id < most && unsettled == 0; id += 200 { // cancelled before they arrive
		for _, r := range send(rule.Settle, rule.ID(id), 200) {
			if r.Answers[0].Flags&rule.Unsettled != 0 {
				unsettled++
			}
		}
	}
	if unsettled == 0 || !first.Allowed {
		o.fatalf("%d cancellations of one key are remembered, want a bound", most)
	}
	for left := range int64(2) {
		if a := send(rule.Take, 1<<51, 1)[0].Answers[0]; a.Flags != rule.NotOnce || a.Granted != 1 || a.Remaining != 3-left {
			o.fatalf("a call that is not remembered: got %+v, want it charged, and flagged", a)
		}
	}
	if a := send(rule.Take, 1<<50, 1)[0].Answers[0]; a.Flags != rule.Repeated || a.Granted != 1 || a.Remaining != 2 {
		o.fatalf("an earlier call: got %+v, want it known", a)
	}
	o.moveBy(3 * limit.Rule().Memory())
	for _, flags := range []rule.Flags{0, rule.Repeated} {
		if a := send(rule.Take, 1<<52, 1)[0].Answers[0]; a.Flags != flags || a.Granted != 1 {
			o.fatalf("three windows later: got %+v, want it remembered", a)
		}
	}
}

// severalLimits: all limits of a call are charged once, and known by the first of them.
func (o *calls) severalLimits() {
	o.t.Helper()
	limits := smallLimits()
	for i := range limits {
		limits[i].Name = fmt.Sprintf("once-several-%d", i)
	}
	o.begin("a call of several limits")
	bound := o.bindAll(limits...)
	bound = bound[:min(len(bound), o.store.Traits().MaxCharges)]
	call := store.Request{Op: rule.Take, ID: o.newID(), Group: "group", Once: true}
	for i, limit := range bound {
		call.Charges = append(call.Charges, store.Charge{Limit: limit, Key: o.key, Cost: int64(1 + i)})
	}
	want := func(op rule.Op, sign int64, left func(i int) int64) {
		o.t.Helper()
		call.Op = op
		for i, a := range o.bothRequest(call) {
			if a.Granted != sign*int64(1+i) || a.Remaining != left(i) {
				o.fatalf("limit %d: got %+v, want %d granted and %d left", i, a, sign*int64(1+i), left(i))
			}
		}
	}
	charged := func(i int) int64 { return 29 - int64(i) }
	want(rule.Take, 1, charged)
	want(rule.Take, 1, charged)
	want(rule.Settle, 1, func(int) int64 { return 30 })
	want(rule.Take, 0, func(int) int64 { return 30 })
}
