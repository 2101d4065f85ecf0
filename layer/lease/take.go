package lease

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// TakeSingle spends from the key's block if it has one, and else asks the store underneath.
func (s *Store) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	if !limit.Rule().Lease || cost < 1 || cost > limit.Rule().Capacity() {
		return s.one.TakeSingle(ctx, limit, key, cost)
	}
	if err = ctx.Err(); err != nil {
		return false, 0, 0, 0, 0, 0, fmt.Errorf("lease: not asked for: %w", err)
	}
	h := s.hash(limit, "", key)
	e := s.table.find(h, limit, "", key)
	if e == nil {
		if e = s.hold(h, limit, "", key, cost); e == nil {
			return s.one.TakeSingle(ctx, limit, key, cost)
		}
	} else if b, left, now, ok := s.spend(e, limit, cost); ok {
		resetAfter = micros(b.reset - now)
		if left == 0 {
			after = resetAfter
		}
		return true, rule.Leased, left, after, resetAfter, b.at, nil
	}
	return s.takeWaiting(ctx, e, limit, key, cost)
}

// takeWaiting is TakeSingle where there are too few units at hand.
func (s *Store) takeWaiting(ctx context.Context, e *holding, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	for range mostWaits {
		if a, ok := e.refuse(limit, cost, s.clock.read()); ok {
			return false, a.Flags, a.Remaining, a.RetryAfter, a.ResetAfter, a.At, nil
		}
		b, now, ok := s.await(ctx, e, limit, cost)
		if err = ctx.Err(); err != nil && b == nil {
			return false, 0, 0, 0, 0, 0, fmt.Errorf("lease: not admitted: %w", err)
		}
		if !ok {
			break
		}
		if b != nil {
			left, _ := b.left()
			a := b.answer(cost, left, now)
			return true, a.Flags, a.Remaining, a.NextAfter, a.ResetAfter, a.At, nil
		}
		if b, left, now, ok := s.spend(e, limit, cost); ok {
			a := b.answer(cost, left, now)
			return true, a.Flags, a.Remaining, a.NextAfter, a.ResetAfter, a.At, nil
		}
	}
	if a, ok := e.refuse(limit, cost, s.clock.read()); ok {
		return false, a.Flags, a.Remaining, a.RetryAfter, a.ResetAfter, a.At, nil
	}
	sent := s.clock.read()
	allowed, flags, remaining, after, resetAfter, at, err = s.one.TakeSingle(ctx, limit, key, cost)
	if err == nil && !allowed && flags == 0 {
		a := rule.Answer{Remaining: remaining, RetryAfter: after, ResetAfter: resetAfter, At: at}
		e.denied.Store(newRefusal(limit, cost, &a, sent, s.clock.read()))
	}
	return allowed, flags, remaining, after, resetAfter, at, err
}

// mostWaits is how often a request joins those who wait for a block before it goes to the store by itself: a second time if
// what it got had ended, or was too little.
const mostWaits = 2

// hold counts a request for an address that has no holding, and returns one if it is asked for often; else nil.
func (s *Store) hold(h uint64, limit *store.Limit, group, key string, cost int64) *holding {
	now := s.clock.read()
	units := s.heat.add(h, now, cost)
	if units < hot || s.closed.Load() {
		return nil
	}
	e, first := s.table.add(h, limit, group, key, s.opts.MaxKeys)
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.begun {
		e.begun = true
		e.pace.start(now, 0, units*span/heatSpan)
		e.remains = limit.Rule().Capacity()
	}
	if first {
		go s.keep()
	}
	return e
}

// accept ends the blocks of another value of the limit, and reports whether the address can have a block under this one. The
// caller holds e.mu.
func (s *Store) accept(e *holding, limit *store.Limit, now int64) bool {
	if same(e.limit, limit) {
		e.limit = limit
		return true
	}
	s.end(e, now)
	if e.changed != 0 && now < e.changed+several { // it goes to and fro
		e.barred = now + several
	}
	e.limit, e.changed = limit, now
	e.remains = limit.Rule().Capacity()
	e.denied.Store(nil)
	return now >= e.barred
}

// refuse answers a request that the store has just refused for as much or less.
func (e *holding) refuse(limit *store.Limit, cost, now int64) (a rule.Answer, ok bool) {
	f := e.denied.Load()
	if f == nil || cost < f.cost || now >= f.until || !same(f.limit, limit) {
		return a, false
	}
	a = f.answer
	a.Flags |= rule.Leased | rule.Cached
	a.RetryAfter, a.ResetAfter = micros(f.retry-now), micros(f.reset-now)
	return a, true
}

// answer is that of a spend which left so many.
func (b *block) answer(cost, left, now int64) rule.Answer {
	a := rule.Answer{Allowed: true, Flags: rule.Leased, Granted: cost, Remaining: left, ResetAfter: micros(b.reset - now), At: b.at}
	if left == 0 {
		a.NextAfter = a.ResetAfter
	}
	return a
}

// micros returns a number of nanoseconds, rounded up: what is said is at most that far away.
func micros(ns int64) rule.Micros { return rule.Micros(max(0, ns+999) / 1000) }
