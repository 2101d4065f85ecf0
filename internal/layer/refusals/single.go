package refusals

import (
	"context"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// TakeSingle refuses from the cache, or calls the inner store. An admitted request takes the shortest path: a hash, a
// cache line, the clock.
func (s *Store) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	if uint64(cost) > rule.MaxQuota || len(key) > maxBytes || !s.canRemember(limit) { // not rememberable
		return s.takeUncached(ctx, limit, key, cost)
	}
	hash := s.address(limit, "", key)
	b := s.home(hash)
	turn := b.turn.Load()
	now := s.clock()
	if b.mayHold(hash) {
		if e := findOne(now, hash, turn, b, limit, key, cost); e != nil {
			s.count(hash).hits.Add(1)
			var a rule.Answer
			e.fill(&a, 0, cost, now)
			return false, a.Flags, a.Remaining, answering.After(&a), a.ResetAfter, a.At, nil
		}
	}
	s.count(hash).misses.Add(1)
	allowed, flags, remaining, after, resetAfter, at, err = s.one.TakeSingle(ctx, limit, key, cost)
	if err == nil && (!allowed || flags != 0) {
		l := lookup{now: now, hash: hash, turn: turn, home: quietBucket(b, turn)}
		s.recordOne(&l, store.Charge{Limit: limit, Key: key, Cost: cost}, rule.Answer{
			Allowed: allowed, Flags: flags, Remaining: remaining, RetryAfter: after, ResetAfter: resetAfter, At: at,
		})
	}
	return allowed, flags, remaining, after, resetAfter, at, err
}

// findOne is find for a single charge.
func findOne(now time.Duration, hash, turn uint64, b *bucket, limit *store.Limit, key string, cost int64) *entry {
	l := lookup{now: now, hash: hash, turn: turn, home: quietBucket(b, turn)}
	charges := [1]store.Charge{{Limit: limit, Key: key, Cost: cost}}
	return l.find("", charges[:])
}

// recordOne records the store's answer to a single charge.
func (s *Store) recordOne(l *lookup, charge store.Charge, answer rule.Answer) {
	charges, answers := [1]store.Charge{charge}, [1]rule.Answer{answer}
	s.remember(l, "", charges[:], answers[:])
}

// takeUncached is TakeSingle for requests that are neither answered from the cache nor remembered.
func (s *Store) takeUncached(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	charges := [1]store.Charge{{Limit: limit, Key: key, Cost: cost}}
	allowed, flags, remaining, after, resetAfter, at, err = s.one.TakeSingle(ctx, limit, key, cost)
	s.forgetMoved(flags, "", charges[:])
	return allowed, flags, remaining, after, resetAfter, at, err
}
