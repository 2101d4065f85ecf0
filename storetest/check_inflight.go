package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkInFlight: slots are held by the reservations that took them, never more than there are, until they are released or
// expire.
func checkInFlight(t testing.TB, s *suite) {
	p := s.pair(t)
	limit := p.bindRule("slots", rule.Limit{Algorithm: rule.InFlight, Quota: 3, Window: 30_000_000})
	if limit == nil {
		t.Skip("the store rejects in-flight limits")
	}
	checkSlotScript(p, limit)
	checkSlotsExpire(p, limit)
	for i, most := range []int64{1, 7, 50} {
		if many := p.bindRule("slots-at-once", rule.Limit{Algorithm: rule.InFlight, Quota: most, Window: 30_000_000}); many != nil {
			for round := range s.times(5) {
				raceSlots(p, many, fmt.Sprintf("at-once-%d-%d", i, round))
			}
		}
	}
	if p.store.Traits().MaxCharges >= 2 {
		checkSlotsWithRate(p, limit)
	}
}

// slot returns the charge of one slot.
func slot(limit *store.Limit, key string, at rule.Micros) store.Charge {
	return store.Charge{Limit: limit, Key: key, Cost: 1, At: at}
}

// expectSlots calls both stores, and checks the decision and how many slots are left.
func (p *pair) expectSlots(id rule.ID, op rule.Op, charge store.Charge, allowed bool, left int64) rule.Answer {
	p.t.Helper()
	a := p.bothAs(id, op, "", charge)[0]
	if a.Allowed != allowed || a.Remaining != left {
		p.fatalf("%s of slot %d: allowed %v and %d left, want %v and %d", op, id, a.Allowed, a.Remaining, allowed, left)
	}
	return a
}

// checkSlotScript: requests that are sent twice, because the first answer was lost, do no harm.
func checkSlotScript(p *pair, limit *store.Limit) {
	p.t.Helper()
	p.title = "slots"
	key := slot(limit, "key", 1)
	const far = rule.ID(1 << 63) // beyond the range of a signed integer
	p.expectSlots(far, rule.Take, key, true, 2)
	p.expectSlots(far, rule.Take, key, true, 2)
	p.expectSlots(2, rule.Take, key, true, 1)
	p.expectSlots(far+2, rule.Take, key, true, 0) // not the slot of 2
	p.expectSlots(4, rule.Take, key, false, 0)
	p.expectSlots(far+2, rule.Take, key, true, 0) // the last one, by the reservation that holds it
	p.expectSlots(2, rule.Renew, key, true, 0)
	p.expectSlots(2, rule.Renew, key, true, 0)
	p.expectSlots(4, rule.Renew, key, false, 0)
	p.expectSlots(2, rule.GiveBack, key, true, 1)
	p.expectSlots(2, rule.GiveBack, key, true, 1)
	p.expectSlots(2, rule.Renew, key, false, 1)
	p.expectSlots(4, rule.GiveBack, key, true, 1)
	p.expectSlots(far, rule.Settle, key, true, 2)
	p.expectSlots(far, rule.Settle, key, true, 2)
	p.expectSlots(9, rule.Take, slot(limit, "other", 1), true, 2)
	p.expectSlots(5, rule.Take, key, true, 1)
	p.expectSlots(0, rule.GiveBack, slot(limit, "key", rule.Oldest), true, 2)
	p.expectSlots(far+2, rule.Renew, key, false, 2) // it was the oldest
	p.expectSlots(5, rule.Peek, key, true, 2)
	p.expectSlots(0, rule.Reset, key, true, 3)
	p.expectSlots(5, rule.Renew, key, false, 3)
}

// checkSlotsExpire: a slot that is not renewed expires when its time is over, and not a microsecond before; a renewed slot
// is kept.
func checkSlotsExpire(p *pair, limit *store.Limit) {
	p.t.Helper()
	p.forgetSubjects()
	p.title = "slots expire"
	key, ttl := slot(limit, "mortal", 1), limit.Rule().Window
	for id := range rule.ID(3) {
		p.expectSlots(id+1, rule.Take, key, true, 2-int64(id))
		p.moveBy(1_000)
	}
	p.moveBy(ttl/2 - 3_000)
	p.expectSlots(1, rule.Renew, key, true, 0)
	p.moveBy(ttl/2 + 999)
	p.expectSlots(4, rule.Take, key, false, 0)
	p.moveBy(1) // the slot of 2 is as old as it can be
	p.expectSlots(2, rule.Renew, key, false, 1)
	p.expectSlots(4, rule.Take, key, true, 0)
	p.moveBy(ttl/2 - 1_001)
	p.expectSlots(1, rule.Renew, key, true, 1)
	for range 10 {
		p.moveBy(ttl - 1)
		p.expectSlots(1, rule.Renew, key, true, 2)
	}
	p.moveBy(ttl)
	p.expectSlots(1, rule.Renew, key, false, 3)
}

// raceSlots concurrently takes four times as many slots as there are, each twice; then the holders release them
// concurrently.
func raceSlots(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	p.title = "concurrent slots"
	quota := limit.Rule().Quota
	var held atomic.Int64
	p.race(4*int(quota), func(ctx context.Context, worker int) error {
		id := rule.ID(worker + 1)
		first, err := decideAs(ctx, p.store.Apply, id, rule.Take, "", slot(limit, key, 1))
		if err != nil {
			return err
		}
		again, err := decideAs(ctx, p.store.Apply, id, rule.Take, "", slot(limit, key, 1))
		if err != nil {
			return err
		}
		if first[0].Allowed != again[0].Allowed {
			return fmt.Errorf("slot %d: got allowed %v and, when sent again, %v; want the same", id, first[0].Allowed, again[0].Allowed)
		}
		if first[0].Allowed {
			held.Add(1)
		}
		return nil
	})
	if n := held.Load(); n != quota {
		p.fatalf("got %d slots taken concurrently, want %d", n, quota)
	}
	p.race(4*int(quota), func(ctx context.Context, worker int) error {
		_, err := decideAs(ctx, p.store.Apply, rule.ID(worker+1), rule.Settle, "", slot(limit, key, 1))
		return err
	})
	if a, err := decideOne(context.Background(), p.store, rule.Peek, slot(limit, key, 1)); err != nil || a.Remaining != quota {
		p.fatalf("after all slots were released: got %d free and the error %v, want %d free", a.Remaining, err, quota)
	}
}

// checkSlotsWithRate: a slot and units of a rate are both taken, or neither.
func checkSlotsWithRate(p *pair, limit *store.Limit) {
	p.t.Helper()
	for i, with := range smallLimits() {
		p.forgetSubjects()
		p.title = "slots with " + with.String()
		with.Name = "with-slots"
		rate := p.bind(with)
		if rate == nil {
			continue
		}
		key := fmt.Sprintf("rate-%d", i)
		send := func(id rule.ID, op rule.Op, cost int64) []rule.Answer {
			p.t.Helper()
			return p.bothAs(id, op, "group", slot(limit, key, p.clock.Now()), store.Charge{Limit: rate, Key: key, Cost: cost, At: p.clock.Now()})
		}
		if a := send(1, rule.Take, 31); a[0].Remaining != 3 {
			p.fatalf("after a refused request: got %+v, want all 3 slots free", a)
		}
		send(1, rule.Take, 10)
		send(2, rule.Take, 1)
		send(3, rule.Take, 1)
		if a := send(4, rule.Take, 1); a[0].Allowed || a[1].Remaining != 18 {
			p.fatalf("a request without a free slot: got %+v, want a refusal that leaves 18 units", a)
		}
		send(1, rule.Renew, 1)
		if a := send(1, rule.Settle, 10); a[0].Remaining != 1 || a[1].Remaining != 28 {
			p.fatalf("after the settlement: got %+v, want one slot and 28 units free", a)
		}
		send(1, rule.Settle, 10)
	}
}
