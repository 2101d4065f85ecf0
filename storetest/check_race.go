package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// workers is how many goroutines send requests concurrently. With quotas of 30, few requests from each exceed the quota.
const workers = 16

// checkRace: for concurrent requests, the store admits exactly what the rule admits if they come one at a time.
func checkRace(t testing.TB, s *suite) {
	p := s.pair(t)
	for i, limit := range smallLimits() {
		limit.Name = fmt.Sprintf("race-%d", i)
		bound := p.bind(limit)
		if bound == nil {
			continue
		}
		p.title = limit.String()
		for round := range s.times(5) {
			raceOneKey(p, bound, fmt.Sprintf("one-%d", round))
			raceUpTo(p, bound, fmt.Sprintf("up-to-%d", round))
			raceRefunds(p, bound, fmt.Sprintf("refunds-%d", round))
		}
		if !limit.CountRefused { // refused costs that count leave less for the others, depending on the order
			raceSeveralKeys(p, bound)
			raceMixedCosts(p, bound)
			raceRounds(p, bound)
		}
	}
	p.title = "any window"
	for _, limit := range p.bindAll(
		slidegate.Limit{Name: "any", Quota: 20, Window: time.Second, Algorithm: slidegate.SlidingLog},
		slidegate.Limit{Name: "any", Quota: 20, Window: time.Second, Segments: 5, Overlap: slidegate.OverlapWhole},
	) {
		raceAnyWindow(p, limit)
	}
}

// raceOneKey requests single units of one key, more than there are, on a clock that stands still.
func raceOneKey(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	var granted atomic.Int64
	p.race(workers, func(ctx context.Context, worker int) error {
		for i := range 4 {
			a, err := take(ctx, p.store, store.Charge{Limit: limit, Key: key, Cost: 1}, (worker+i)%2 == 0)
			if err != nil {
				return err
			}
			granted.Add(a.Granted)
		}
		return nil
	})
	expectUsed(p, limit, key, granted.Load(), limit.Rule().Quota)
}

// raceSeveralKeys makes each worker go through several keys in a different order.
func raceSeveralKeys(p *pair, limit *store.Limit) {
	p.t.Helper()
	const keys = 5
	var granted [keys]atomic.Int64
	p.race(workers, func(ctx context.Context, worker int) error {
		random := rand.New(rand.NewPCG(p.suite.seed, uint64(worker)))
		for range 3 {
			for _, i := range random.Perm(keys) {
				charge := store.Charge{Limit: limit, Key: fmt.Sprintf("several-%d", i), Cost: 1}
				a, err := take(ctx, p.store, charge, worker%2 == 0)
				if err != nil {
					return err
				}
				granted[i].Add(a.Granted)
			}
		}
		return nil
	})
	for i := range granted {
		expectUsed(p, limit, fmt.Sprintf("several-%d", i), granted[i].Load(), limit.Rule().Quota)
	}
}

// raceMixedCosts requests large costs and the last units one by one, so that everything is used in the end.
func raceMixedCosts(p *pair, limit *store.Limit) {
	p.t.Helper()
	var granted atomic.Int64
	p.race(workers, func(ctx context.Context, worker int) error {
		for _, cost := range []int64{5, 2, 3, 7, 1, 1, 1} {
			a, err := take(ctx, p.store, store.Charge{Limit: limit, Key: "mixed", Cost: cost}, worker%2 == 0)
			if err != nil {
				return err
			}
			granted.Add(a.Granted)
		}
		return nil
	})
	expectUsed(p, limit, "mixed", granted.Load(), limit.Rule().Quota)
}

// raceUpTo requests as much as there is.
func raceUpTo(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	var granted atomic.Int64
	p.race(workers, func(ctx context.Context, worker int) error {
		charge := store.Charge{Limit: limit, Key: key, Cost: int64(3 + worker%5)}
		a, err := decideOne(ctx, p.store, rule.TakeUpTo, charge)
		granted.Add(a.Granted)
		return err
	})
	expectUsed(p, limit, key, granted.Load(), limit.Rule().Quota)
}

// raceRefunds takes and gives back. At no time may more be held than the quota, and in the end what is held is what is
// used.
func raceRefunds(p *pair, limit *store.Limit, key string) {
	p.t.Helper()
	var held atomic.Int64
	p.race(workers, func(ctx context.Context, worker int) error {
		for i := range 4 {
			charge := store.Charge{Limit: limit, Key: key, Cost: int64(1 + (worker+i)%3)}
			a, err := decideOne(ctx, p.store, rule.TakeUpTo, charge)
			if err != nil {
				return err
			}
			if now := held.Add(a.Granted); now > limit.Rule().Quota {
				return fmt.Errorf("got %d units held, want at most the quota, %d", now, limit.Rule().Quota)
			}
			if a.Granted == 0 || i == 3 && worker%4 == 0 {
				continue
			}
			held.Add(-a.Granted)
			charge.Cost, charge.At = a.Granted, a.At
			if worker%2 == 0 {
				charge.At = rule.Oldest
			}
			back, err := decideOne(ctx, p.store, rule.GiveBack, charge)
			if err != nil {
				return err
			}
			if back.Granted != a.Granted {
				return fmt.Errorf("got %d units given back, want %d", back.Granted, a.Granted)
			}
		}
		return nil
	})
	if !limit.Rule().CountRefused { // otherwise refusals in between were charged as well
		expectUsed(p, limit, key, held.Load(), held.Load())
	}
}

// raceRounds moves the clock between rounds. All requests are for single units, so how many are admitted does not depend on
// their order: as many as the reference admits.
func raceRounds(p *pair, limit *store.Limit) {
	p.t.Helper()
	p.forgetSubjects()
	charge := store.Charge{Limit: limit, Key: "rounds", Cost: 1}
	for round := range 6 {
		var granted atomic.Int64
		p.race(workers, func(ctx context.Context, worker int) error {
			for range 2 {
				a, err := take(ctx, p.store, charge, worker%2 == 0)
				if err != nil {
					return err
				}
				granted.Add(a.Granted)
			}
			return nil
		})
		var want int64
		for range 2 * workers {
			a, err := decideOne(context.Background(), p.reference, rule.Take, charge)
			if err != nil {
				p.fatalf("the reference failed: %v", err)
			}
			want += a.Granted
		}
		if granted.Load() != want {
			p.fatalf("round %d: %d were admitted concurrently, want %d, as one at a time", round+1, granted.Load(), want)
		}
		p.single(rule.Peek, limit, "rounds", 1)
		p.moveBy(limit.Rule().Window*rule.Micros(round)/5 + 1)
	}
}

// raceAnyWindow moves the clock during the requests. Whatever the order, no window may hold more than the quota. In each
// round the clock moves by less than a window, so that no request is so late that the clock seems to have jumped.
func raceAnyWindow(p *pair, limit *store.Limit) {
	p.t.Helper()
	var (
		mu sync.Mutex
		at []rule.Micros
	)
	for range p.suite.times(15) {
		p.race(workers, func(ctx context.Context, worker int) error {
			for i := range 2 {
				a, err := take(ctx, p.store, store.Charge{Limit: limit, Key: "any", Cost: 1}, (worker+i)%2 == 0)
				if err != nil {
					return err
				}
				if a.Allowed {
					mu.Lock()
					at = append(at, a.At)
					mu.Unlock()
				}
				p.clock.Advance(limit.Rule().Window / (4 * workers))
			}
			return nil
		})
	}
	slices.SortFunc(at, cmp.Compare[rule.Micros])
	quota := int(limit.Rule().Quota)
	if len(at) < quota {
		p.fatalf("got %d units admitted, want at least the quota, %d", len(at), quota)
	}
	for i := quota; i < len(at); i++ {
		if length := at[i] - at[i-quota]; length < limit.Rule().Window {
			p.fatalf("got %d units admitted within %dus, want at most the quota, %d", quota+1, length, quota)
		}
	}
}

// expectUsed compares what was granted with what should have been, and with what the store reports as remaining.
func expectUsed(p *pair, limit *store.Limit, key string, granted, want int64) {
	p.t.Helper()
	if granted != want {
		p.fatalf("%d units were granted concurrently with a quota of %d, want %d", granted, limit.Rule().Quota, want)
	}
	a, err := decideOne(context.Background(), p.store, rule.Peek, store.Charge{Limit: limit, Key: key, Cost: 1})
	if err == nil && a.Remaining != limit.Rule().Quota-want {
		err = errors.New("the counts and the answers disagree")
	}
	if err != nil {
		p.fatalf("after %d of %d units were granted concurrently, %d remain: %v", granted, limit.Rule().Quota, a.Remaining, err)
	}
}
