package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// noiseKeys is how many other keys are written while a key is idle.
const noiseKeys = 20

// checkExpiry: a store may forget a state when it expires but not before, so forgetting never changes an answer. The
// reference forgets nothing. Other keys are written in between, to make the store clean up.
func checkExpiry(t testing.TB, s *suite) {
	p := s.pair(t)
	for i, limit := range append(smallLimits(), extremeLimits()...) {
		q := p.sequence(i, everyOp, limit)
		if q == nil {
			continue
		}
		limit.Name = fmt.Sprintf("noise-%d", i)
		noise := p.bind(limit)
		p.moveTo(epoch)
		for round := range s.times(12) {
			q.idle(noise, round)
		}
	}
}

// idle charges a key, leaves it alone for some time and uses it again at times around its expiry, which exposes stores that
// forget too early, or too little.
func (q *sequence) idle(noise *store.Limit, round int) {
	q.t.Helper()
	limit := q.subjects[0].variants[0]
	key := fmt.Sprintf("idle-%d", round)
	if round%4 == 3 { // overdrawn: a bucket then takes longer than a window
		q.single(rule.Charge, limit, key, limit.Rule().Capacity())
	}
	q.single(rule.TakeUpTo, limit, key, 1+limit.Rule().Capacity()/2)
	end, found := q.reference.expires(limit, "", key)
	if !found || end > rule.MaxNow-1 {
		return
	}
	if half := (end - q.clock.Now()) / 2; half > 0 {
		q.moveBy(half)
		q.noise(noise, fmt.Sprintf("%d-half-way", round))
	}
	q.moveTo(end - 1)
	q.noise(noise, fmt.Sprintf("%d-before", round))
	q.single(rule.Peek, limit, key, limit.Rule().Capacity())
	switch round % 3 {
	case 0:
		q.single(rule.Take, limit, key, 1)
		return
	case 1:
		q.moveTo(end)
	case 2:
		q.moveTo(end + 1)
	}
	q.single(rule.Peek, limit, key, limit.Rule().Capacity())
	q.noise(noise, fmt.Sprintf("%d-after", round))
	q.single(rule.Take, limit, key, 1)
}

// noise writes keys that are never used again.
func (q *sequence) noise(limit *store.Limit, name string) {
	q.t.Helper()
	if limit == nil {
		return
	}
	batch := make([]store.Request, 0, noiseKeys)
	for i := range noiseKeys {
		batch = append(batch, newRequest(rule.Take, "", store.Charge{
			Limit: limit, Key: fmt.Sprintf("noise-%s-%d", name, i), Cost: 1,
		}))
	}
	if err := q.store.Apply(context.Background(), batch); err != nil {
		q.fatalf("the store failed: %v", err)
	}
}
