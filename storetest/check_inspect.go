package storetest

import (
	"context"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkInspect: by the state and the time that a store.Inspector returns, the rule decides every request as the store does, and
// returning them changes nothing.
func checkInspect(t testing.TB, s *suite) {
	p := s.pair(t)
	inspector, ok := p.store.(store.Inspector)
	if !ok {
		t.Skip("the store is not an Inspector")
	}
	i := inspection{p, inspector}
	i.ended()
	n := 900
	play := func(steps int, of func(index int) *sequence) {
		n++
		q := of(n)
		if q == nil {
			return
		}
		if q.moveTo(epoch); n%3 == 0 {
			q.group = "group"
		}
		for range s.times(steps) {
			q.step(i.apply)
		}
	}
	for _, limit := range catalogue() {
		play(15, func(index int) *sequence { return p.sequence(index, everyOp, limit) })
	}
	for _, limit := range append(slots(), calendars()...) {
		play(30, func(index int) *sequence { return p.sequenceOf(index, everyOp, limit) })
	}
	for _, limit := range holdLimits() {
		play(40, func(index int) *sequence {
			q := p.sequenceOf(index, append(holding, everyOp...), limit)
			if q != nil {
				q.holds = true
			}
			return q
		})
	}
	for _, quota := range []int64{7, 2 * rule.DefaultLog} { // whose variants have quotas on the other side
		play(100, func(index int) *sequence {
			q := p.sequence(index, everyOp, slidegate.Limit{Quota: quota, Window: rule.Micros(minute).Duration()})
			if q != nil {
				q.evenly = true
			}
			return q
		})
	}
}

// inspection compares what a store says of its states with its decisions.
type inspection struct {
	*pair
	inspector store.Inspector
}

// apply decides a request, and checks that the states of its charges lead to the same answers.
func (i *inspection) apply(ctx context.Context, batch []store.Request) error {
	i.t.Helper()
	r := &batch[0]
	items, states, want := make([]rule.Item, len(r.Charges)), make([]rule.State, len(r.Charges)), make([]rule.Answer, len(r.Charges))
	for n, c := range r.Charges {
		states[n] = i.inspect(ctx, c.Limit, r.Group, c.Key)
		again := i.inspect(ctx, c.Limit, r.Group, c.Key)
		// The copies are changed here: if they were the store's own, its answer would be wrong.
		rule.Decide(rule.Charge, []rule.Item{{Limit: c.Limit.Rule(), State: &again, Cost: 1, ID: r.ID}}, i.clock.Now(), want[n:n+1])
		items[n] = rule.Item{Limit: c.Limit.Rule(), State: &states[n], Cost: c.Cost, Used: c.Used, At: c.At, ID: r.ID, Hold: r.Hold}
	}
	if err := i.store.Apply(ctx, batch); err != nil || r.Op == rule.Settle || r.Once {
		return err // what else the store knows of the ID is not in the states
	}
	rule.Decide(r.Op, items, i.clock.Now(), want)
	i.compare(r.Answers, want)
	return nil
}

// inspect returns the state at an address.
func (i *inspection) inspect(ctx context.Context, limit *store.Limit, group, key string) rule.State {
	i.t.Helper()
	state, now, err := i.inspector.Inspect(ctx, limit, group, key)
	if err != nil {
		i.fatalf("Inspect failed: %v", err)
	}
	if now != i.clock.Now() {
		i.fatalf("Inspect: got the time %d, want %d", now, i.clock.Now())
	}
	return state
}

// ended: after its context has ended, Inspect returns an error.
func (i *inspection) ended() {
	i.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	limit := i.bind(slidegate.Limit{Name: "inspect", Quota: 1, Window: rule.Micros(minute).Duration()})
	if limit == nil {
		return
	}
	if _, _, err := i.inspector.Inspect(ctx, limit, "", "key"); err == nil {
		i.fatalf("Inspect after its context has ended: got no error")
	}
}
