package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkRaceSeveralLimits: concurrent requests over several limits stay all or nothing, in any order of their charges, and
// none waits forever.
func checkRaceSeveralLimits(t testing.TB, s *suite) {
	p := s.pair(t)
	if p.store.Traits().MaxCharges == 1 {
		t.Skip("Traits.MaxCharges is 1: the store decides no request over several limits")
	}
	for round := range s.times(5) {
		raceMixedLimits(p, round)
		raceOppositeKeys(p, round)
	}
	raceNewKeys(p)
	racePeeks(p)
}

// raceMixedLimits: limits of different algorithms, one of which is the tightest.
func raceMixedLimits(p *pair, round int) {
	p.t.Helper()
	limits := p.bindAll(
		slidegate.Limit{Name: "tight", Quota: 20, Window: time.Minute, Algorithm: slidegate.SlidingWindow},
		slidegate.Limit{Name: "log", Quota: 50, Window: time.Hour, Algorithm: slidegate.SlidingLog},
		slidegate.Limit{Name: "bucket", Quota: 40, Window: time.Minute, Algorithm: slidegate.TokenBucket},
		slidegate.Limit{Name: "fixed", Quota: 30, Window: time.Hour, Algorithm: slidegate.FixedWindow, CountRefused: true},
	)
	var charges []store.Charge
	for _, limit := range limits[:min(len(limits), p.store.Traits().MaxCharges)] {
		charges = append(charges, store.Charge{Limit: limit, Key: fmt.Sprintf("mixed-%d", round), Cost: 1})
	}
	granted := raceCharges(p, "mixed", 4, charges)
	expectAll(p, "mixed", charges, granted)
}

// raceOppositeKeys: one limit and two keys, which half of the workers name in the opposite order.
func raceOppositeKeys(p *pair, round int) {
	p.t.Helper()
	limit := p.bind(slidegate.Limit{Name: "opposite", Quota: 30, Window: time.Hour, Algorithm: slidegate.SlidingWindow})
	if limit == nil {
		return
	}
	charges := []store.Charge{
		{Limit: limit, Key: fmt.Sprintf("x-%d", round), Cost: 1}, {Limit: limit, Key: fmt.Sprintf("y-%d", round), Cost: 1},
	}
	expectAll(p, "opposite", charges, raceCharges(p, "opposite", 4, charges))
}

// raceNewKeys: the first requests of keys that do not exist yet race to create them.
func raceNewKeys(p *pair) {
	p.t.Helper()
	limits := p.bindAll(slidegate.Limit{Name: "new-a", Quota: 3, Window: time.Hour, Anchor: slidegate.AnchorFirst},
		slidegate.Limit{Name: "new-b", Quota: 5, Window: time.Hour, Algorithm: slidegate.SlidingLog})
	for round := range p.suite.times(25) {
		var charges []store.Charge
		for _, limit := range limits {
			charges = append(charges, store.Charge{Limit: limit, Key: fmt.Sprintf("new-%d", round), Cost: 1})
		}
		if len(charges) > 0 {
			expectAll(p, "new", charges, raceCharges(p, "new", 1, charges))
		}
	}
}

// racePeeks: two limits are always charged together, so a request that peeks at both must see the same in both.
func racePeeks(p *pair) {
	p.t.Helper()
	limits := p.bindAll(slidegate.Limit{Name: "seen-a", Quota: 10_000, Window: time.Hour},
		slidegate.Limit{Name: "seen-b", Quota: 10_000, Window: time.Hour, Segments: 6})
	if len(limits) < 2 {
		return
	}
	charges := []store.Charge{{Limit: limits[0], Key: "seen", Cost: 1}, {Limit: limits[1], Key: "seen", Cost: 1}}
	p.race(workers, func(ctx context.Context, worker int) error {
		for i := range p.suite.times(40) {
			op := rule.Take
			if (worker+i)%2 == 0 {
				op = rule.Peek
			}
			answers, err := decide(ctx, p.store.Apply, op, "seen", charges...)
			if err != nil {
				return err
			}
			if answers[0].Remaining != answers[1].Remaining {
				return fmt.Errorf("another request was decided between two charges of one: %d and %d remain of limits "+
					"that are always charged together", answers[0].Remaining, answers[1].Remaining)
			}
		}
		return nil
	})
}

// raceCharges makes every worker request all charges together, every other one in the opposite order, and returns how many
// requests were granted.
func raceCharges(p *pair, group string, each int, charges []store.Charge) int64 {
	p.t.Helper()
	var granted atomic.Int64
	p.race(workers, func(ctx context.Context, worker int) error {
		mine := slices.Clone(charges)
		if worker%2 == 0 {
			slices.Reverse(mine)
		}
		for range each {
			answers, err := decide(ctx, p.store.Apply, rule.Take, group, mine...)
			if err != nil {
				return err
			}
			granted.Add(answers[0].Granted)
			for _, a := range answers {
				if a.Granted != answers[0].Granted {
					return fmt.Errorf("one limit granted %d and another %d", answers[0].Granted, a.Granted)
				}
			}
		}
		return nil
	})
	return granted.Load()
}

// expectAll: the tightest limit decided, and all limits were charged the same.
func expectAll(p *pair, group string, charges []store.Charge, granted int64) {
	p.t.Helper()
	tightest := charges[0].Limit.Rule().Quota
	for _, charge := range charges {
		tightest = min(tightest, charge.Limit.Rule().Quota)
	}
	if granted != tightest {
		p.fatalf("%d requests were granted concurrently, want the tightest quota, %d", granted, tightest)
	}
	answers, err := decide(context.Background(), p.store.Apply, rule.Peek, group, charges...)
	if err != nil {
		p.fatalf("the store failed: %v", err)
	}
	for i, charge := range charges {
		if want := charge.Limit.Rule().Quota - granted; answers[i].Remaining != want {
			p.fatalf("%d requests were granted, and %[3]d remain of %[2]v, want %[4]d",
				granted, adapter.Unbind(charge.Limit), answers[i].Remaining, want)
		}
	}
}
