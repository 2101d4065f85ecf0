package lease

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// TakeSingle spends from the key's lease if there is one, and otherwise calls the inner store.
func (s *Store) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	if !limit.Rule().Lease || cost < 1 || cost > limit.Rule().Capacity() {
		return s.one.TakeSingle(ctx, limit, key, cost)
	}
	if err = ctx.Err(); err != nil {
		return false, 0, 0, 0, 0, 0, fmt.Errorf("lease: not sent: %w", err)
	}
	h := limit.Hash("", key)
	e := s.table.find(h, limit, "", key)
	if e == nil {
		if e = s.hold(h, limit, "", key, cost); e == nil {
			return s.one.TakeSingle(ctx, limit, key, cost)
		}
	} else if l, left, now, ok := s.spend(e, limit, cost); ok {
		resetAfter = micros(l.reset - now)
		if left == 0 {
			after = resetAfter
		}
		return true, rule.Leased, left, after, resetAfter, l.at, nil
	}
	return s.takeWaiting(ctx, e, limit, key, cost)
}

// takeWaiting is TakeSingle where too few units are at hand.
func (s *Store) takeWaiting(ctx context.Context, e *holding, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	for range maxWaits {
		if a, ok := e.refuse(limit, cost, s.clock.read()); ok {
			return false, a.Flags, a.Remaining, a.RetryAfter, a.ResetAfter, a.At, nil
		}
		l, now, ok := s.await(ctx, e, limit, cost)
		if err = ctx.Err(); err != nil && l == nil {
			return false, 0, 0, 0, 0, 0, fmt.Errorf("lease: not admitted: %w", err)
		}
		if !ok {
			break
		}
		if l != nil {
			left, _ := l.left()
			a := l.answer(cost, left, now)
			return true, a.Flags, a.Remaining, a.NextAfter, a.ResetAfter, a.At, nil
		}
		if l, left, now, ok := s.spend(e, limit, cost); ok {
			a := l.answer(cost, left, now)
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
		e.refused.Store(newRefusal(limit, cost, &a, sent, s.clock.read()))
	}
	return allowed, flags, remaining, after, resetAfter, at, err
}

// maxWaits is how often a request waits for a lease before it goes to the store itself: a second time if the lease had
// ended or was too small.
const maxWaits = 2

// hold counts a request for an address that has no holding, and returns a new holding if the address is requested
// often, otherwise nil.
func (s *Store) hold(h uint64, limit *store.Limit, group, key string, cost int64) *holding {
	now := s.clock.read()
	units := s.heat.add(h, now, cost)
	if units < hotUnits || s.closed.Load() {
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
		s.startKeeper()
	}
	return e
}

// accept ends leases of another value of the limit, and reports whether the address can have a lease under this one.
// The caller holds e.mu.
func (s *Store) accept(e *holding, limit *store.Limit, now int64) bool {
	if sameRule(e.limit, limit) {
		e.limit = limit
		return true
	}
	s.end(e, now)
	if e.changed != 0 && now < e.changed+mixedPause { // it alternates between values
		e.barredUntil = now + mixedPause
	}
	e.limit, e.changed = limit, now
	e.remains = limit.Rule().Capacity()
	e.refused.Store(nil)
	return now >= e.barredUntil
}

// refuse answers a request if the store has just refused the same cost or less.
func (e *holding) refuse(limit *store.Limit, cost, now int64) (a rule.Answer, ok bool) {
	f := e.refused.Load()
	if f == nil || cost < f.cost || now >= f.until || !sameRule(f.limit, limit) {
		return a, false
	}
	a = f.answer
	a.Flags |= rule.Leased | rule.Cached
	a.RetryAfter, a.ResetAfter = micros(f.retry-now), micros(f.reset-now)
	return a, true
}

// answer returns the answer to a spend that left that many units.
func (l *lease) answer(cost, left, now int64) rule.Answer {
	a := rule.Answer{Allowed: true, Flags: rule.Leased, Granted: cost, Remaining: left, ResetAfter: micros(l.reset - now), At: l.at}
	if left == 0 {
		a.NextAfter = a.ResetAfter
	}
	return a
}

// micros converts nanoseconds to microseconds, rounded up, so that the result is an upper bound.
func micros(ns int64) rule.Micros { return rule.Micros(max(0, ns+999) / 1000) }
