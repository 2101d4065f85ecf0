package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkClock: a request is decided at one time, which is read while no other request decides about its keys. The clock
// moves on at every reading, so the reference, which would read it too, is not called.
func checkClock(t testing.TB, s *suite) {
	p := s.pair(t)
	p.clock.tick.Store(1)
	checkReadOnce(p)
	if p.store.Traits().ServerClock {
		t.Log("not checked: that the clock is read inside the critical section, because the server reads its own")
		return
	}
	for i, algorithm := range []rule.Algorithm{slidegate.FixedWindow, slidegate.SlidingWindow} {
		limit := slidegate.Limit{Name: fmt.Sprintf("inside-%d", i), Quota: 10_000, Window: 24 * time.Hour, Algorithm: algorithm}
		if bound := p.bind(limit); bound != nil {
			checkReadInside(p, bound)
		}
	}
}

// checkReadOnce: all answers of a request have the same time, one that the clock showed during the request.
func checkReadOnce(p *pair) {
	limits := p.bindAll(smallLimits()...)
	limits = limits[:min(len(limits), p.store.Traits().MaxCharges)]
	for round := range p.suite.times(20) {
		var charges []store.Charge
		for _, limit := range limits {
			charges = append(charges, store.Charge{Limit: limit, Key: fmt.Sprintf("once-%d", round), Cost: 1})
		}
		before := p.clock.Now()
		answers, err := decide(context.Background(), p.store.Apply, rule.Take, "group", charges...)
		if err != nil {
			p.fatalf("the store failed: %v", err)
		}
		after := p.clock.Now()
		for _, answer := range answers {
			if answer.At != answers[0].At {
				p.fatalf("one request was decided at %d and at %d; read the clock once per request", answers[0].At, answer.At)
			}
			if answer.At <= before || answer.At >= after {
				p.fatalf("decided at %d, want a time from %d to %d", answer.At, before, after)
			}
		}
	}
}

// checkReadInside: Remaining shows in which order requests were decided, and their times must be in that order. A store
// that reads its clock and then waits for its turn decides by an old time.
func checkReadInside(p *pair, limit *store.Limit) {
	var (
		mu  sync.Mutex
		all []rule.Answer
	)
	p.race(16, func(ctx context.Context, worker int) error {
		for i := range p.suite.times(20) {
			answer, err := take(ctx, p.store, store.Charge{Limit: limit, Key: "key", Cost: 1}, (worker+i)%2 == 0)
			if err != nil {
				return err
			}
			mu.Lock()
			all = append(all, answer)
			mu.Unlock()
		}
		return nil
	})
	slices.SortFunc(all, func(a, b rule.Answer) int { return cmp.Compare(b.Remaining, a.Remaining) })
	for i := 1; i < len(all); i++ {
		if all[i].Remaining == all[i-1].Remaining {
			p.fatalf("got %d remaining in two answers, want a different number in each", all[i].Remaining)
		}
		if all[i].At < all[i-1].At {
			p.fatalf("request %d of a key was decided at %d, the one before it at %d; read the clock inside the critical section",
				i+1, all[i].At, all[i-1].At)
		}
	}
}
