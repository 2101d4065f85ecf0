package failure

import (
	"context"
	"fmt"
	"sync"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// fallback decides by policy a request that the store did not answer, and returns the request's error.
func (s *Store) fallback(ctx context.Context, r *store.Request, why *unavailable) error {
	if len(r.Charges) == 0 || len(r.Answers) < len(r.Charges) {
		return fmt.Errorf("failure: %w: a request has at least one charge and an answer for each, not %d and %d",
			store.ErrUnsupported, len(r.Charges), len(r.Answers))
	}
	switch {
	case r.Op == rule.Reset && s.local != nil:
		s.undecided.Add(1)
		if err := s.local.reset(ctx, r); err != nil {
			return bothErrors(why, err)
		}
		return why
	case !s.canDecide(r):
		s.undecided.Add(1)
		return why
	case s.local != nil:
		if err := s.local.apply(ctx, r); err != nil {
			s.undecided.Add(1)
			return bothErrors(why, err)
		}
		s.correctRetry(r)
	case s.optimism != nil:
		if !s.applyOptimistic(r, why) {
			s.undecided.Add(1)
			return why
		}
	case s.policy.flag == rule.FallbackOpen:
		s.admitAll(r)
	default:
		s.refuseAll(r)
	}
	s.countFallback(ctx, r.Op, why)
	return nil
}

// canDecide reports whether the policy may decide: always for takes and peeks, for other operations only where they
// belong.
func (s *Store) canDecide(r *store.Request) bool {
	switch r.Op {
	case rule.Take, rule.TakeUpTo, rule.Peek:
		return true
	case rule.Charge:
		return s.local != nil || s.optimism != nil
	case rule.GiveBack: // the oldest units, whichever request took them; units with a time are the store's
		for i := range r.Charges {
			if r.Charges[i].At != rule.Oldest {
				return false
			}
		}
		return s.local != nil || s.optimism != nil
	}
	return false // a settlement or a renewal belongs where the units and slots are
}

// applyOptimistic decides a request by the policy Optimistic. It reports false if it cannot.
func (s *Store) applyOptimistic(r *store.Request, why *unavailable) (done bool) {
	now := s.now()
	switch r.Op {
	case rule.Charge:
		as := sent // it may have been charged; sent again, it might be charged twice
		if why.notSent {
			as = owed
		}
		done = s.optimism.force(r, now, as)
	case rule.GiveBack:
		s.optimism.giveBackOldest(r, now)
		done = true
	default:
		s.optimism.decide(r, now, s.untilProbe())
		done = true
	}
	s.startCharging()
	return done
}

// takeOptimistic is applyOptimistic for a take of a single charge.
func (s *Store) takeOptimistic(limit *store.Limit, key string, cost int64, why *unavailable) rule.Answer {
	q := singleTakes.Get().(*singleTake)
	q.charge[0] = store.Charge{Limit: limit, Key: key, Cost: cost}
	q.request = store.Request{Op: rule.Take, Charges: q.charge[:], Answers: q.answer[:]}
	s.applyOptimistic(&q.request, why)
	a := q.answer[0]
	*q = singleTake{}
	singleTakes.Put(q)
	return a
}

// singleTake is the reusable memory of takeOptimistic.
type singleTake struct {
	request store.Request
	charge  [1]store.Charge
	answer  [1]rule.Answer
}

var singleTakes = sync.Pool{New: func() any { return new(singleTake) }}

// bothErrors returns the error of a request that neither the store nor the fallback answered.
func bothErrors(why *unavailable, err error) error {
	return fmt.Errorf("%w; and the fallback: %w", why, err)
}

func (s *Store) countFallback(ctx context.Context, op rule.Op, why *unavailable) {
	s.fallbacks.Add(1)
	if s.opts.OnFallback != nil {
		s.opts.OnFallback(ctx, op, why)
	}
}

// takeFallback is fallback for a single charge.
func (s *Store) takeFallback(ctx context.Context, limit *store.Limit, key string, cost int64, why *unavailable) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	possible := cost <= limit.Rule().Capacity()
	if s.optimism != nil {
		a := s.takeOptimistic(limit, key, cost, why)
		s.countFallback(ctx, rule.Take, why)
		return a.Allowed, a.Flags, a.Remaining, a.After(), a.ResetAfter, a.At, nil
	}
	if s.local == nil {
		allowed, at = possible && s.policy.flag == rule.FallbackOpen, -s.now()
		if !allowed {
			after = s.retryAfter(possible)
		}
		s.countFallback(ctx, rule.Take, why)
		return allowed, s.policy.flag, 0, after, 0, at, nil
	}
	allowed, flags, remaining, after, resetAfter, at, err = s.local.takeOne(ctx, limit, key, cost)
	if err != nil {
		s.undecided.Add(1)
		return false, 0, 0, 0, 0, 0, bothErrors(why, err)
	}
	if after == rule.Never {
		after = s.retryAfter(possible)
	}
	s.countFallback(ctx, rule.Take, why)
	return allowed, flags | rule.FallbackLocal, remaining, after, resetAfter, fallbackTime(at), nil
}

// retryAfter returns when to retry a cost that the policy denied: at the next probe, or never if the limit cannot admit
// it.
func (s *Store) retryAfter(possible bool) rule.Micros {
	if possible {
		return s.untilProbe()
	}
	return rule.Never
}

// admitAll answers as unused limits would: with the full cost, up to their capacity.
func (s *Store) admitAll(r *store.Request) {
	grant, all := int64(rule.MaxQuota), true
	for i := range r.Charges {
		c := &r.Charges[i]
		grant = min(grant, c.Cost, c.Limit.Rule().Capacity())
		all = all && isPossible(r.Op, c)
	}
	at := -s.now()
	for i := range r.Charges {
		c, a := &r.Charges[i], &r.Answers[i]
		*a = rule.Answer{Allowed: isPossible(r.Op, c), Flags: s.policy.flag, At: at}
		switch {
		case !a.Allowed:
			a.RetryAfter = rule.Never
		case all && r.Op == rule.Take:
			a.Granted = c.Cost
		case all && r.Op == rule.TakeUpTo:
			a.Granted = grant
		}
	}
}

func (s *Store) refuseAll(r *store.Request) {
	at := -s.now()
	for i := range r.Charges {
		r.Answers[i] = rule.Answer{
			Flags: s.policy.flag, RetryAfter: s.retryAfter(isPossible(r.Op, &r.Charges[i])), At: at,
		}
	}
}

// isPossible reports whether an unused limit admits a charge.
func isPossible(op rule.Op, c *store.Charge) bool {
	return op == rule.TakeUpTo || c.Cost <= c.Limit.Rule().Capacity()
}

// correctRetry corrects the retry time of a cost that exceeds a share but not the whole limit.
func (s *Store) correctRetry(r *store.Request) {
	for i := range r.Charges {
		if a := &r.Answers[i]; a.RetryAfter == rule.Never {
			a.RetryAfter = s.retryAfter(isPossible(r.Op, &r.Charges[i]))
		}
	}
}

// finishFallback refunds, settles or renews what the store did not give, at the fallback, which did. With Open there
// is nothing to refund and no slot that could be lost.
func (s *Store) finishFallback(ctx context.Context, r *store.Request) error {
	if s.local != nil {
		return s.local.apply(ctx, r)
	}
	if len(r.Answers) < len(r.Charges) {
		return fmt.Errorf("failure: %w: a request has an answer for each charge, not %d for %d",
			store.ErrUnsupported, len(r.Answers), len(r.Charges))
	}
	if s.optimism != nil {
		s.optimism.finish(r, s.now())
		s.startCharging()
		return nil
	}
	at := -s.now()
	for i := range r.Charges {
		r.Answers[i] = rule.Answer{Allowed: true, Flags: s.policy.flag, At: at}
	}
	return nil
}

// fallbackTime marks a time as not the store's.
func fallbackTime(at rule.Micros) rule.Micros {
	return min(-at, at, -1)
}
