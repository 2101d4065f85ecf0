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

// checkSettle: a reservation is settled once, however often that is sent, and the store says what the first time did.
func checkSettle(t testing.TB, s *suite) {
	p := s.pair(t)
	for i, limit := range small() {
		limit.Name = fmt.Sprintf("settle-%d", i)
		bound := p.bind(limit)
		if bound == nil {
			continue
		}
		p.title = limit.String()
		p.turnPage()
		settleScript(p, bound, "key")
		settleMemory(p, bound, "memory")
		settleSetBack(p, bound, "set-back")
		settleUnasked(p, bound, "unasked")
		for round := range s.times(5) {
			raceSettle(p, bound, fmt.Sprintf("race-%d", round))
		}
	}
	if p.store.Traits().MaxCharges >= 2 {
		settleSeveral(p)
	}
	settleFull(p)
}

// settle asks both to settle one charge, and demands what that gave back and what is left.
func (p *pair) settle(id rule.ID, charge store.Charge, back, left int64, flags rule.Flags) {
	p.t.Helper()
	a := p.bothAs(id, rule.Settle, "", charge)[0]
	if a.Granted != back || a.Remaining != left || a.Flags != flags || !a.Allowed {
		p.fatalf("settled with %d back, %d left and flags %v, not %d, %d and %v", a.Granted, a.Remaining, a.Flags, back, left, flags)
	}
}

func settleScript(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	const id = rule.ID(1<<63 + 5)
	at := p.one(rule.Take, limit, key, 20).At
	charge := store.Charge{Limit: limit, Key: key, Cost: 20, Used: 5, At: at}
	p.settle(id, charge, 15, 25, 0)
	p.settle(id, charge, 15, 25, rule.Repeated)
	other := charge
	other.Used = 29 // whatever else is sent by that name
	p.settle(id, other, 15, 25, rule.Repeated)
	p.settle(id+1, store.Charge{Limit: limit, Key: key, Cost: 5, Used: 9, At: at}, -4, 21, 0) // more than was reserved
	p.settle(id+1, store.Charge{Limit: limit, Key: key, Cost: 5, Used: 9, At: at}, -4, 21, rule.Repeated)
	p.settle(id+2, store.Charge{Limit: limit, Key: key, Cost: 4, Used: 4, At: at}, 0, 21, 0) // what was used is what was reserved
	p.settle(id+2, store.Charge{Limit: limit, Key: key, Cost: 4, Used: 0, At: at}, 0, 21, rule.Repeated)
	p.settle(id, store.Charge{Limit: limit, Key: key + " other", Cost: 9, At: at}, 0, 30, 0) // another address: another reservation
	// A reset forgets what was counted, not what was settled.
	p.one(rule.Reset, limit, key, 0)
	p.one(rule.Take, limit, key, 20)
	p.settle(id, charge, 15, 10, rule.Repeated)
}

// settleMemory: it is known for as long as a unit counts that was charged with it.
func settleMemory(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	memory := limit.Rule().Memory()
	charge := store.Charge{Limit: limit, Key: key, Cost: 20, Used: 5, At: p.one(rule.Take, limit, key, 20).At}
	p.bothAs(7, rule.Settle, "", charge)
	for range 4 {
		p.moveBy(memory/4 - 1)
		p.one(rule.Charge, limit, key, 9)
		if a := p.bothAs(7, rule.Settle, "", charge)[0]; !a.Flags.Repeated() || a.Granted != 15 {
			p.fatalf("forgotten before %dus were over: %+v", memory, a)
		}
	}
}

// settleSetBack: it is known also if the clock is set back over the moment at which a new stretch of what is remembered began.
func settleSetBack(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	memory := limit.Rule().Memory()
	p.moveBy(memory - p.clock.Now()%memory + 10)
	charge := store.Charge{Limit: limit, Key: key, Cost: 20, Used: 5, At: p.one(rule.Take, limit, key, 20).At}
	p.settle(12, charge, 15, 25, 0)
	p.moveBy(-20)
	if a := p.bothAs(12, rule.Settle, "", charge)[0]; !a.Flags.Repeated() || a.Granted != 15 {
		p.fatalf("forgotten when the clock was set back: %+v", a)
	}
	p.moveBy(20)
}

// settleUnasked: a context that has ended settles nothing, and nothing is remembered of it.
func settleUnasked(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	charge := store.Charge{Limit: limit, Key: key, Cost: 20, Used: 5, At: p.one(rule.Take, limit, key, 20).At}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := decideAs(ended, p.store.Apply, 8, rule.Settle, "", charge); !errors.Is(err, context.Canceled) {
		p.fatalf("a context that has ended: the error is %v", err)
	}
	p.settle(8, charge, 15, 25, 0)
}

// raceSettle sends one settlement from many sides at once: it is done once, and all are told what it did.
func raceSettle(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	a, err := askOne(context.Background(), p.store, rule.Take, store.Charge{Limit: limit, Key: key, Cost: 30})
	if err != nil || !a.Allowed {
		p.fatalf("a whole quota was refused: %+v, %v", a, err)
	}
	charge := store.Charge{Limit: limit, Key: key, Cost: 30, Used: 28, At: a.At}
	var first atomic.Int64
	p.race(workers, func(ctx context.Context, worker int) error {
		answers, err := decideAs(ctx, p.store.Apply, 9, rule.Settle, "", charge)
		if err != nil {
			return err
		}
		if !answers[0].Flags.Repeated() {
			first.Add(1)
		}
		if answers[0].Granted != 2 || answers[0].Remaining != 2 {
			return fmt.Errorf("settled at once, 2 units come back, not as in %+v", answers[0])
		}
		return nil
	})
	if n := first.Load(); n != 1 {
		p.fatalf("%d of %d settlements of one reservation were the first", n, workers)
	}
}

// settleSeveral: all charges of a reservation are settled together, and known by the first of them.
func settleSeveral(p *pair) {
	p.t.Helper()
	p.turnPage()
	p.title = "settle several"
	limits := small()
	for i := range limits {
		limits[i].Name = fmt.Sprintf("several-%d", i)
	}
	bound := p.bindAll(limits...)
	bound = bound[:min(len(bound), p.store.Traits().MaxCharges)]
	var charges []store.Charge
	for _, limit := range bound {
		charges = append(charges, store.Charge{Limit: limit, Key: "several", Cost: 10, At: p.clock.Now()})
	}
	p.both(rule.Take, "group", charges...)
	for i := range charges {
		charges[i].Used = int64(3 * i) // some for less, some for more
	}
	for range 3 {
		for i, a := range p.bothAs(11, rule.Settle, "group", charges...) {
			if want := 10 - int64(3*i); a.Granted != want || a.Remaining != 20+want {
				p.fatalf("limit %d: %d units back and %d left, not %d and %d", i, a.Granted, a.Remaining, want, 20+want)
			}
		}
	}
}

// settleFull: what is remembered is bounded. When it is full, nothing is given back, and the store says so; later it is not.
func settleFull(p *pair) {
	p.t.Helper()
	p.turnPage()
	p.title = "settlements are bounded"
	limit := p.bindRule("full", rule.Limit{Algorithm: rule.SlidingLog, Quota: 5, Window: 60_000_000})
	if limit == nil {
		return
	}
	ask := func(op rule.Op, id rule.ID, n int) []store.Request {
		p.t.Helper()
		batch := make([]store.Request, n)
		for i := range batch {
			batch[i] = newRequest(op, "", store.Charge{Limit: limit, Key: "full", Cost: 3, At: p.clock.Now()})
			batch[i].ID = id + rule.ID(i)
		}
		if err := p.store.Apply(context.Background(), batch); err != nil {
			p.fatalf("the store failed: %v", err)
		}
		return batch
	}
	ask(rule.Take, 0, 1)
	unsettled, most := 0, 4*limit.Rule().Settlements()
	for id := int64(1); id < most && unsettled == 0; id += 200 {
		for _, r := range ask(rule.Settle, rule.ID(id), 200) {
			if r.Answers[0].Flags.Unsettled() {
				unsettled++
			}
		}
		if unsettled > 0 && id+200 < limit.Rule().Settlements() {
			p.fatalf("full after fewer than %d settlements", limit.Rule().Settlements())
		}
	}
	if unsettled == 0 {
		p.fatalf("%d settlements of one key are remembered, and there is no end to it", most)
	}
	ask(rule.Reset, 0, 1)
	ask(rule.Take, 0, 1)
	full := ask(rule.Settle, 1<<40, 1)[0].Answers[0]
	if !full.Flags.Unsettled() || full.Granted != 0 || full.Remaining != 2 {
		p.fatalf("a settlement that is not remembered gives nothing back and says so, not %+v", full)
	}
	if known := ask(rule.Settle, 1, 1)[0].Answers[0]; !known.Flags.Repeated() || known.Granted != 3 || known.Remaining != 2 {
		p.fatalf("an earlier one is known all the same, not %+v", known)
	}
	p.moveBy(3 * limit.Rule().Memory())
	ask(rule.Take, 0, 1)
	if later := ask(rule.Settle, 1<<41, 1)[0].Answers[0]; later.Flags != 0 || later.Granted != 3 {
		p.fatalf("three windows later there is room for another, not %+v", later)
	}
}
