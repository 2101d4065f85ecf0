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

// checkSettle: a reservation is settled once, however often that is sent, and the store reports what the first time did.
func checkSettle(t testing.TB, s *suite) {
	p := s.pair(t)
	for i, limit := range smallLimits() {
		limit.Name = fmt.Sprintf("settle-%d", i)
		bound := p.bind(limit)
		if bound == nil {
			continue
		}
		p.title = limit.String()
		p.forgetSubjects()
		settleScript(p, bound, "key")
		settleMemory(p, bound, "memory")
		settleSetBack(p, bound, "set-back")
		settleEnded(p, bound, "ended")
		for round := range s.times(5) {
			raceSettle(p, bound, fmt.Sprintf("race-%d", round))
		}
	}
	if p.store.Traits().MaxCharges >= 2 {
		settleSeveral(p)
	}
	settleFull(p)
}

// settle makes both stores settle one charge, and checks what that gave back and what is left.
func (p *pair) settle(id rule.ID, charge store.Charge, back, left int64, flags rule.Flags) {
	p.t.Helper()
	a := p.bothAs(id, rule.Settle, "", charge)[0]
	if a.Granted != back || a.Remaining != left || a.Flags != flags || !a.Allowed {
		p.fatalf("settled with %d back, %d left and flags %v, want %d, %d and %v", a.Granted, a.Remaining, a.Flags, back, left, flags)
	}
}

func settleScript(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	const id = rule.ID(1<<63 + 5)
	at := p.single(rule.Take, limit, key, 20).At
	charge := store.Charge{Limit: limit, Key: key, Cost: 20, Used: 5, At: at}
	p.settle(id, charge, 15, 25, 0)
	p.settle(id, charge, 15, 25, rule.Repeated)
	other := charge
	other.Used = 29 // whatever else is sent with that ID
	p.settle(id, other, 15, 25, rule.Repeated)
	p.settle(id+1, store.Charge{Limit: limit, Key: key, Cost: 5, Used: 9, At: at}, -4, 21, 0) // more than was reserved
	p.settle(id+1, store.Charge{Limit: limit, Key: key, Cost: 5, Used: 9, At: at}, -4, 21, rule.Repeated)
	p.settle(id+2, store.Charge{Limit: limit, Key: key, Cost: 4, Used: 4, At: at}, 0, 21, 0) // exactly what was reserved
	p.settle(id+2, store.Charge{Limit: limit, Key: key, Cost: 4, Used: 0, At: at}, 0, 21, rule.Repeated)
	p.settle(id, store.Charge{Limit: limit, Key: key + " other", Cost: 9, At: at}, 0, 30, 0) // another address: another reservation
	// A reset forgets what was counted, not what was settled.
	p.single(rule.Reset, limit, key, 0)
	p.single(rule.Take, limit, key, 20)
	p.settle(id, charge, 15, 10, rule.Repeated)
}

// settleMemory: a settlement is known for longer than a unit charged at the same time counts and, while there is space, for
// rule.LongMemory.
func settleMemory(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	memory, start := limit.Rule().Memory(), p.clock.Now()
	charge := store.Charge{Limit: limit, Key: key, Cost: 20, Used: 5, At: p.single(rule.Take, limit, key, 20).At}
	more := store.Charge{Limit: limit, Key: key, Cost: 2, Used: 3, At: charge.At}
	p.bothAs(7, rule.Settle, "", charge)
	p.bothAs(13, rule.Settle, "", more)
	for _, after := range []rule.Micros{memory / 4, memory / 2, memory - 1, memory, 2*memory + 1, rule.LongMemory - 1} {
		p.moveTo(start + after)
		p.single(rule.Charge, limit, key, 9)
		if a := p.bothAs(7, rule.Settle, "", charge)[0]; a.Flags&rule.Repeated == 0 || a.Granted != 15 {
			p.fatalf("a repeated settlement after %dus: got %+v, want it flagged as repeated with 15 units back", after, a)
		}
		if a := p.bothAs(13, rule.Settle, "", more)[0]; a.Flags&rule.Repeated == 0 || a.Granted != -1 {
			p.fatalf("a repeated settlement after %dus: got %+v, want it flagged as repeated with a unit charged", after, a)
		}
	}
}

// settleSetBack: a settlement is still known if the clock is set back, just before it or after the charge. It is known for as
// long as its units count: if they are ahead of the clock, they count until the clock has passed them.
func settleSetBack(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	memory := limit.Rule().Memory()
	p.moveBy(memory - p.clock.Now()%memory + 10)
	charge := store.Charge{Limit: limit, Key: key, Cost: 20, Used: 5, At: p.single(rule.Take, limit, key, 20).At}
	p.settle(12, charge, 15, 25, 0)
	p.moveBy(-20)
	if a := p.bothAs(12, rule.Settle, "", charge)[0]; a.Flags&rule.Repeated == 0 || a.Granted != 15 {
		p.fatalf("a repeated settlement after the clock was set back: got %+v, want it flagged as repeated with 15 units back", a)
	}
	p.moveBy(20)
	key += " far"
	charge = store.Charge{Limit: limit, Key: key, Cost: 20, Used: 20, At: p.single(rule.Take, limit, key, 20).At}
	p.moveBy(-3 * max(memory, rule.LongMemory))
	p.bothAs(14, rule.Settle, "", charge)
	p.moveTo(charge.At - 1)
	charge.Used = 0
	if a := p.bothAs(14, rule.Settle, "", charge)[0]; a.Flags&rule.Repeated == 0 || a.Granted != 0 || a.Remaining != 10 {
		p.fatalf("settled again when the clock has come back to the charge: got %+v, want it flagged as repeated, nothing back, 10 left", a)
	}
}

// settleEnded: with a context that has ended nothing is settled, and nothing is remembered.
func settleEnded(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	charge := store.Charge{Limit: limit, Key: key, Cost: 20, Used: 5, At: p.single(rule.Take, limit, key, 20).At}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := decideAs(ended, p.store.Apply, 8, rule.Settle, "", charge); !errors.Is(err, context.Canceled) {
		p.fatalf("with a context that has ended: got the error %v, want context.Canceled", err)
	}
	p.settle(8, charge, 15, 25, 0)
}

// raceSettle sends one settlement many times concurrently: it is done once, and all get the same result.
func raceSettle(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	a, err := decideOne(context.Background(), p.store, rule.Take, store.Charge{Limit: limit, Key: key, Cost: 30})
	if err != nil || !a.Allowed {
		p.fatalf("taking a whole quota: got %+v and the error %v, want an admission", a, err)
	}
	charge := store.Charge{Limit: limit, Key: key, Cost: 30, Used: 28, At: a.At}
	var first atomic.Int64
	p.race(workers, func(ctx context.Context, worker int) error {
		answers, err := decideAs(ctx, p.store.Apply, 9, rule.Settle, "", charge)
		if err != nil {
			return err
		}
		if answers[0].Flags&rule.Repeated == 0 {
			first.Add(1)
		}
		if answers[0].Granted != 2 || answers[0].Remaining != 2 {
			return fmt.Errorf("concurrent settlement: got %+v, want 2 units back", answers[0])
		}
		return nil
	})
	if n := first.Load(); n != 1 {
		p.fatalf("%d of %d settlements of one reservation were the first, want 1", n, workers)
	}
}

// settleSeveral: all charges of a reservation are settled together, and known by the first of them.
func settleSeveral(p *pair) {
	p.t.Helper()
	p.forgetSubjects()
	p.title = "settle several"
	limits := smallLimits()
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
				p.fatalf("limit %d: %d units back and %d left, want %d and %d", i, a.Granted, a.Remaining, want, 20+want)
			}
		}
	}
}

// settleFull: the memory of settlements is bounded. When it is full, nothing is given back, and the store reports that;
// later there is space again.
func settleFull(p *pair) {
	p.t.Helper()
	p.forgetSubjects()
	p.title = "settlements are bounded"
	limit := p.bindRule("full", rule.Limit{Algorithm: rule.SlidingLog, Quota: 5, Window: 60_000_000})
	if limit == nil {
		return
	}
	send := func(op rule.Op, id rule.ID, n int) []store.Request {
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
	send(rule.Take, 0, 1)
	unsettled, most := 0, 4*limit.Rule().Settlements()
	for id := int64(1); id < most && unsettled == 0; id += 200 {
		for _, r := range send(rule.Settle, rule.ID(id), 200) {
			if r.Answers[0].Flags&rule.Unsettled != 0 {
				unsettled++
			}
		}
		if unsettled > 0 && id+200 < limit.Rule().Settlements() {
			p.fatalf("full after fewer than %d settlements", limit.Rule().Settlements())
		}
	}
	if unsettled == 0 {
		p.fatalf("%d settlements of one key are remembered, want a bound", most)
	}
	send(rule.Reset, 0, 1)
	send(rule.Take, 0, 1)
	full := send(rule.Settle, 1<<40, 1)[0].Answers[0]
	if full.Flags&rule.Unsettled == 0 || full.Granted != 0 || full.Remaining != 2 {
		p.fatalf("a settlement that is not remembered: got %+v, want nothing given back, and flagged", full)
	}
	if known := send(rule.Settle, 1, 1)[0].Answers[0]; known.Flags&rule.Repeated == 0 || known.Granted != 3 || known.Remaining != 2 {
		p.fatalf("an earlier settlement: got %+v, want it known", known)
	}
	p.moveBy(3 * limit.Rule().Memory())
	send(rule.Take, 0, 1)
	if later := send(rule.Settle, 1<<41, 1)[0].Answers[0]; later.Flags != 0 || later.Granted != 3 {
		p.fatalf("three windows later: got %+v, want it settled", later)
	}
}
