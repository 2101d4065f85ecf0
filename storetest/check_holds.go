package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkHolds: what reservations hold counts beside what was used, on every algorithm, until they are settled, cancelled or not renewed
// in time.
func checkHolds(t testing.TB, s *suite) {
	h := &holds{defaults: &defaults{pair: s.pair(t)}}
	for i, l := range holdLimits() {
		limit := h.bindRule(fmt.Sprintf("hold-%d", i), l)
		if limit == nil {
			continue
		}
		h.script(limit)
		h.atMostOpen(limit)
		h.killed(limit)
		h.lost(limit)
		h.outlastTheWindow(limit)
		h.underOtherLimits(limit, l)
		h.clockJumped(limit)
		if s := h.sequenceOf(800+i, append(holding, everyOp...), l); s != nil {
			s.holds, s.once, s.remembered = true, true, map[rule.ID]rule.Micros{}
			h.otherHolds(s, l)
			s.play(h.suite.times(300))
		}
		for round := range h.suite.times(5) {
			h.race(limit, fmt.Sprintf("race-%d", round))
		}
	}
	h.calendar()
	h.retryAfter()
	h.full()
	if h.store.Traits().MaxCharges > 1 {
		h.severalLimits()
	}
}

// holdLimits returns limits of 10 a second with holds of half a minute, of every algorithm.
func holdLimits() []rule.Limit {
	limits := []rule.Limit{
		{}, {Algorithm: rule.SlidingLog}, {Algorithm: rule.SlidingWindow}, {Algorithm: rule.SlidingWindow, Segments: 4, Overlap: rule.OverlapWhole},
		{Algorithm: rule.FixedWindow}, {Algorithm: rule.TokenBucket},
	}
	for i := range limits {
		limits[i].Quota, limits[i].Window, limits[i].Hold = 10, second, 30*second
	}
	return limits
}

// holding is mostly what reservations do.
var holding = []rule.Op{
	rule.Take, rule.Take, rule.Take, rule.Settle, rule.Settle, rule.Settle, rule.Settle, rule.Renew, rule.Renew, rule.Renew, rule.Renew,
}

// holds plays scripts over limits with Hold. Times are since the start of a minute.
type holds struct {
	*defaults
	id rule.ID // the last one
}

// newID returns an ID that was not used.
func (h *holds) newID() rule.ID {
	h.id++
	return h.id * 0x9E3779B97F4A7C15
}

// hold reserves units, and checks the decision.
func (h *holds) hold(limit *store.Limit, id rule.ID, units int64, allowed bool, left int64) rule.Answer {
	h.t.Helper()
	return h.does(store.Request{Op: rule.Take, ID: id, Hold: true}, limit, units, 0, allowed, left)
}

// settles settles a reservation of 5 units, and checks what that returned.
func (h *holds) settles(limit *store.Limit, id rule.ID, used, back, left int64, flags rule.Flags) {
	h.t.Helper()
	a := h.does(store.Request{Op: rule.Settle, ID: id}, limit, 5, used, true, left)
	if a.Granted != back || a.Flags != flags {
		h.fatalf("settled: got %+v, want %d back and flags %v", a, back, flags)
	}
}

// renews renews a reservation, and checks whether it is still held.
func (h *holds) renews(limit *store.Limit, id rule.ID, held bool, left int64) {
	h.t.Helper()
	a := h.does(store.Request{Op: rule.Renew, ID: id}, limit, 5, 0, held, left)
	if !held && a.RetryAfter != rule.Never {
		h.fatalf("renewed what is lost: got %+v, want it lost for good", a)
	}
}

func (h *holds) does(r store.Request, limit *store.Limit, cost, used int64, allowed bool, left int64) rule.Answer {
	h.t.Helper()
	r.Charges = []store.Charge{{Limit: limit, Key: h.key, Cost: cost, Used: used, At: h.clock.Now()}}
	a := h.bothRequest(r)[0]
	if a.Allowed != allowed || a.Remaining != left {
		h.fatalf("got %+v, want allowed %v with %d left", a, allowed, left)
	}
	return a
}

func (h *holds) script(limit *store.Limit) {
	h.t.Helper()
	h.begin("holds")
	one, two := h.newID(), h.newID()
	if a := h.hold(limit, one, 5, true, 5); a.ResetAfter != 30*second || a.Granted != 5 {
		h.fatalf("got %+v, want 5 held for 30s", a)
	}
	h.hold(limit, two, 5, true, 0)
	h.hold(limit, two, 5, true, 0) // again, because its answer was lost
	if a := h.hold(limit, h.newID(), 1, false, 0); a.Flags != rule.Held || a.RetryAfter != 30*second {
		h.fatalf("got %+v, want a refusal because of what is held", a)
	}
	h.at(4 * second)
	if a := h.wantOf(limit, rule.Take, 1, false, 0, 26*second); a.Flags != rule.Held {
		h.fatalf("got %+v, want a refusal because of what is held", a)
	}
	h.settles(limit, one, 3, 2, 2, 0) // charged now
	h.settles(limit, one, 3, 2, 2, rule.Repeated)
	h.settles(limit, one, 0, 2, 2, rule.Repeated) // whatever an old copy says
	h.renews(limit, one, false, 2)
	h.hold(limit, h.newID(), 3, false, 2)
	h.at(7 * second)
	h.renews(limit, two, true, 5)
	h.at(36 * second)
	h.renews(limit, two, true, 5) // 29 s after the last time
	h.settles(limit, two, 0, 5, 10, 0)
	h.settles(limit, two, 5, 5, 10, rule.Repeated)
	h.renews(limit, two, false, 10)
	h.hold(limit, h.newID(), 10, true, 0)
	h.single(rule.Reset, limit, h.key, 0)
	h.want2(limit, 10, true)
}

// want2 takes units that are not held.
func (h *holds) want2(limit *store.Limit, cost int64, allowed bool) {
	h.t.Helper()
	if a := h.single(rule.Take, limit, h.key, cost); a.Allowed != allowed {
		h.fatalf("taking %d: got %+v, want allowed %v", cost, a, allowed)
	}
}

// atMostOpen: calls of 5 units that run for 4 s are never more than 2 at once, of 10 a second.
func (h *holds) atMostOpen(limit *store.Limit) {
	h.t.Helper()
	h.begin("at most open")
	type call struct {
		id   rule.ID
		ends rule.Micros
	}
	var open []call
	admitted := 0
	for step := range rule.Micros(60) {
		h.at(step * second / 4)
		for len(open) > 0 && open[0].ends <= h.clock.Now() {
			h.bothRequest(store.Request{Op: rule.Settle, ID: open[0].id, Charges: []store.Charge{{Limit: limit, Key: h.key, Cost: 5, Used: 5}}})
			open = open[1:]
		}
		id := h.newID()
		a := h.bothRequest(store.Request{Op: rule.Take, ID: id, Hold: true, Charges: []store.Charge{{Limit: limit, Key: h.key, Cost: 5}}})[0]
		if a.Allowed {
			admitted++
			open = append(open, call{id, h.clock.Now() + 4*second})
		}
		if len(open) > 2 {
			h.fatalf("%d calls of 5 units are open, of a quota of 10", len(open))
		}
	}
	if admitted < 4 {
		h.fatalf("%d calls were admitted in 15s, want at least 4", admitted)
	}
}

// killed: what a process holds that was killed is free after its hold.
func (h *holds) killed(limit *store.Limit) {
	h.t.Helper()
	h.begin("killed")
	h.hold(limit, h.newID(), 5, true, 5)
	last := h.newID()
	h.hold(limit, last, 5, true, 0)
	h.at(second)
	h.renews(limit, last, true, 0)
	h.at(30*second - 1)
	h.wantOf(limit, rule.Take, 1, false, 0, 1)
	h.at(30 * second)
	h.wantOf(limit, rule.Take, 1, true, 4, 0)
	h.at(31*second - 1)
	h.want2(limit, 6, false)
	h.at(33 * second)
	h.want2(limit, 10, true)
}

// lost: a hold that ended is not taken again, and settling it charges what was used, once.
func (h *holds) lost(limit *store.Limit) {
	h.t.Helper()
	h.begin("lost")
	id, other := h.newID(), h.newID()
	h.hold(limit, id, 8, true, 2)
	h.at(30 * second)
	h.renews(limit, id, false, 10)
	h.hold(limit, other, 2, true, 8)
	h.settles(limit, id, 6, -6, 2, 0)
	h.settles(limit, id, 6, -6, 2, rule.Repeated)
	h.at(59 * second) // a hold is remembered for longer than it lasts
	h.settles(limit, id, 6, -6, 8, rule.Repeated)
}

// outlastTheWindow: holds live and die independently of the window: no edge drops one.
func (h *holds) outlastTheWindow(limit *store.Limit) {
	h.t.Helper()
	h.begin("edges")
	h.at(second - 1)
	id := h.newID()
	h.hold(limit, id, 4, true, 6)
	for _, after := range []rule.Micros{second, second + 1, 2 * second, 10*second - 1, 20 * second} {
		h.at(after)
		if a := h.single(rule.Peek, limit, h.key, 7); a.Allowed || a.Remaining != 6 || a.Flags != rule.Held {
			h.fatalf("%dus later: got %+v, want 6 of 10 left", after, a)
		}
	}
	h.single(rule.Take, limit, h.key, 6)
	h.at(23 * second)
	h.settles(limit, id, 0, 4, 10, 0)
}

// calendar: a hold outlasts the day in which it was taken, and what was used is charged to the day of the settlement.
func (h *holds) calendar() {
	h.t.Helper()
	limit := h.bindRule("day", rule.Limit{Calendar: rule.Day, Quota: 10, Hold: 30 * second})
	if limit == nil {
		return
	}
	h.begin("midnight")
	_, midnight := limit.Rule().Bounds(h.clock.Now())
	h.moveTo(midnight - second)
	id := h.newID()
	h.hold(limit, id, 4, true, 6)
	h.wantOf(limit, rule.Take, 6, true, 0, 0)
	h.moveTo(midnight + second)
	h.wantOf(limit, rule.Take, 7, false, 6, 28*second)
	h.settles(limit, id, 3, 1, 7, 0)
	h.moveTo(midnight + minute)
	h.wantOf(limit, rule.Peek, 7, true, 7, 0)
}

// underOtherLimits: what is held counts for every limit of the address, whatever its quota is and whether it has Hold.
func (h *holds) underOtherLimits(limit *store.Limit, l rule.Limit) {
	h.t.Helper()
	h.begin("other limits")
	plain, small := l, l
	plain.Hold, small.Quota, small.Burst, small.Hold = 0, 6, 0, 10*second
	without, lowered := h.bindRule(limit.Name(), plain), h.bindRule(limit.Name(), small)
	if without == nil || lowered == nil {
		return
	}
	id, short := h.newID(), h.newID()
	h.hold(limit, id, 5, true, 5)
	if a := h.single(rule.Take, without, h.key, 6); a.Allowed || a.Flags != rule.Held {
		h.fatalf("without hold: got %+v, want a refusal because of what is held", a)
	}
	h.hold(lowered, h.newID(), 2, false, 1)
	h.hold(lowered, short, 1, true, 0)
	h.at(10 * second)
	h.renews(lowered, short, false, 1) // it ends after its own hold
	h.renews(limit, id, true, 5)
	if a := h.does(store.Request{Op: rule.Take, ID: h.newID(), Hold: true}, without, 5, 0, true, 0); a.Granted != 5 {
		h.fatalf("a reservation on a limit without hold: got %+v, want it charged", a)
	}
	h.at(20 * second)
	h.single(rule.Peek, without, h.key, 5)
	h.settles(limit, id, 5, 0, 5, 0)
}

// clockJumped: holds from a time that the clock had jumped to are moved back with it.
func (h *holds) clockJumped(limit *store.Limit) {
	h.t.Helper()
	h.begin("clock jumped")
	h.at(40 * second)
	h.hold(limit, h.newID(), 8, true, 2)
	h.at(0)
	if a := h.single(rule.Take, limit, h.key, 3); a.Allowed || a.Flags != rule.Held|rule.ClockMoved || a.RetryAfter != 30*second {
		h.fatalf("got %+v, want a refusal for 30s, flagged as moved", a)
	}
	h.at(30*second - 1)
	h.wantOf(limit, rule.Take, 3, false, 2, 1)
	h.at(30 * second)
	h.want2(limit, 3, true)
}

// otherHolds adds variants with another quota and hold, and without.
func (h *holds) otherHolds(q *sequence, l rule.Limit) {
	h.t.Helper()
	q.evenly = true
	s := &q.subjects[0]
	s.variants = s.variants[:1]
	for _, change := range []func(l *rule.Limit){
		func(l *rule.Limit) { l.Hold = 0 }, func(l *rule.Limit) { l.Quota = 4 }, func(l *rule.Limit) { l.Hold = second / 2 }, func(l *rule.Limit) { l.Quota = 120 },
	} {
		other := l
		change(&other)
		if limit := h.bindRule(s.variants[0].Name(), other); limit != nil {
			s.variants = append(s.variants, limit)
		}
	}
}

// race makes many reservations at the same time, and ends each of them many times.
func (h *holds) race(limit *store.Limit, key string) {
	h.t.Helper()
	h.title = "holds race"
	first := h.newID()
	var held [workers]atomic.Bool
	var admitted atomic.Int64
	send := func(ctx context.Context, r store.Request, used int64) (rule.Answer, error) {
		r.Charges = []store.Charge{{Limit: limit, Key: key, Cost: 3, Used: used, At: h.clock.Now()}}
		return decideRequest(ctx, h.store.Apply, r)
	}
	h.pair.race(workers, func(ctx context.Context, worker int) error {
		for range 2 { // the second one renews
			a, err := send(ctx, store.Request{Op: rule.Take, ID: first + rule.ID(worker), Hold: true}, 0)
			if err != nil {
				return err
			}
			if a.Allowed && !held[worker].Swap(true) {
				admitted.Add(1)
			}
		}
		return nil
	})
	if n := admitted.Load(); n != 3 {
		h.fatalf("%d reservations of 3 units are open, of a quota of 10, want 3", n)
	}
	var settled atomic.Int64
	h.pair.race(workers, func(ctx context.Context, worker int) error {
		for i := range workers {
			if id := (worker + i) % workers; held[id].Load() {
				a, err := send(ctx, store.Request{Op: rule.Settle, ID: first + rule.ID(id)}, 2)
				if err != nil || a.Granted != 1 {
					return fmt.Errorf("settled: got %+v and the error %v, want 1 back", a, err)
				}
				if a.Flags&rule.Repeated == 0 {
					settled.Add(1)
				}
			}
		}
		return nil
	})
	if a, err := send(context.Background(), store.Request{Op: rule.Peek}, 0); err != nil || settled.Load() != 3 || a.Remaining != 4 {
		h.fatalf("%d settlements were the first ones, and then got %+v and the error %v, want 3 and 4 units left", settled.Load(), a, err)
	}
}

// retryAfter: what is held and what was used end at different times.
func (h *holds) retryAfter() {
	h.t.Helper()
	limit := h.bindRule("retry", rule.Limit{Algorithm: rule.SlidingLog, Quota: 10, Window: 10 * second, Hold: 4 * second})
	if limit == nil {
		return
	}
	h.begin("retry")
	h.wantOf(limit, rule.Take, 3, true, 7, 0)
	h.at(second)
	h.hold(limit, h.newID(), 2, true, 5) // until 5 s
	h.at(2 * second)
	h.hold(limit, h.newID(), 5, true, 0) // until 6 s
	h.at(3 * second)
	for cost, after := range map[int64]rule.Micros{2: 2 * second, 7: 3 * second, 8: 7 * second, 11: rule.Never} {
		h.wantOf(limit, rule.Take, cost, false, 0, after)
	}
	h.at(5*second - 1)
	h.wantOf(limit, rule.Peek, 2, false, 0, 1)
	h.at(5 * second)
	h.wantOf(limit, rule.Peek, 2, true, 2, 0)
	h.at(6*second - 1)
	h.wantOf(limit, rule.Peek, 7, false, 2, 1)
	h.at(6 * second)
	h.wantOf(limit, rule.Peek, 7, true, 7, 0)
	h.wantOf(limit, rule.Peek, 8, false, 7, 4*second)
}

// full: at most rule.MaxHolds reservations hold units of a key, and the answer says so.
func (h *holds) full() {
	h.t.Helper()
	limit := h.bindRule("full", rule.Limit{Quota: 5_000, Window: second, Hold: 30 * second})
	if limit == nil {
		return
	}
	h.begin("full")
	var ids []rule.ID
	for range rule.MaxHolds / 200 {
		batch := make([]store.Request, 200)
		for i := range batch {
			ids = append(ids, h.newID())
			batch[i] = newRequest(rule.Take, "", store.Charge{Limit: limit, Key: h.key, Cost: 1})
			batch[i].ID, batch[i].Hold = ids[len(ids)-1], true
		}
		for _, apply := range []applyFunc{h.store.Apply, h.reference.Apply} {
			if err := apply(context.Background(), batch); err != nil {
				h.fatalf("the store failed: %v", err)
			}
		}
	}
	next := h.newID()
	if a := h.hold(limit, next, 1, false, 4_000); a.Flags != rule.Held|rule.HoldsFull || a.RetryAfter != 30*second {
		h.fatalf("with %d holds: got %+v, want a refusal for 30s that says so", len(ids), a)
	}
	h.hold(limit, ids[17], 1, true, 4_000)        // it is held already
	h.wantOf(limit, rule.Take, 1, true, 3_999, 0) // there is nothing to hold
	h.settles(limit, ids[17], 0, 1, 4_000, 0)
	h.hold(limit, next, 1, true, 3_999)
}

// severalLimits: a request holds units of limits with Hold and charges the others, all or none.
func (h *holds) severalLimits() {
	h.t.Helper()
	tokens := h.bindRule("tokens", rule.Limit{Quota: 10, Window: second, Hold: 30 * second})
	requests := h.bindRule("requests", rule.Limit{Quota: 2, Window: minute})
	if tokens == nil || requests == nil {
		return
	}
	h.begin("several limits")
	send := func(r store.Request, used int64) []rule.Answer {
		h.t.Helper()
		r.Group, r.Hold = "group", r.Op == rule.Take
		r.Charges = []store.Charge{
			{Limit: tokens, Key: h.key, Cost: 3, Used: used, At: h.start}, {Limit: requests, Key: h.key, Cost: 1, Used: 1, At: h.start},
		}
		return h.bothRequest(r)
	}
	want := func(a []rule.Answer, left, leftOfRequests int64) {
		h.t.Helper()
		if a[0].Remaining != left || a[1].Remaining != leftOfRequests {
			h.fatalf("got %+v, want %d and %d left", a, left, leftOfRequests)
		}
	}
	one, two := h.newID(), h.newID()
	want(send(store.Request{Op: rule.Take, ID: one}, 0), 7, 1)
	want(send(store.Request{Op: rule.Take, ID: two}, 0), 4, 0)
	want(send(store.Request{Op: rule.Take, ID: h.newID()}, 0), 4, 0) // the second limit refuses, so nothing is held
	h.at(10 * second)
	want(send(store.Request{Op: rule.Renew, ID: one}, 0), 4, 0)
	want(send(store.Request{Op: rule.Settle, ID: one}, 4), 3, 0)
	want(send(store.Request{Op: rule.Settle, ID: one}, 4), 3, 0)
	h.at(30 * second)
	want(send(store.Request{Op: rule.Renew, ID: two}, 0), 10, 0)
	want(send(store.Request{Op: rule.Settle, ID: two}, 0), 10, 0)
}
