package failure

import (
	"context"
	"fmt"
	"sync"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// instead lets the policy answer a request that the store did not, and returns the request's error.
func (s *Store) instead(ctx context.Context, r *store.Request, why *unavailable) error {
	if len(r.Charges) == 0 || len(r.Answers) < len(r.Charges) {
		return fmt.Errorf("failure: %w: a request has at least one charge and an answer for each, not %d and %d",
			store.ErrUnsupported, len(r.Charges), len(r.Answers))
	}
	switch {
	case r.Op == rule.Reset && s.local != nil:
		s.undone.Add(1)
		if err := s.local.reset(ctx, r); err != nil {
			return both(why, err)
		}
		return why
	case !s.canDecide(r):
		s.undone.Add(1)
		return why
	case s.local != nil:
		if err := s.local.apply(ctx, r); err != nil {
			s.undone.Add(1)
			return both(why, err)
		}
		s.trueRetry(r)
	case s.optimism != nil:
		if !s.hope(r, why) {
			s.undone.Add(1)
			return why
		}
	case s.policy.flag == rule.FallbackOpen:
		s.admitAll(r)
	default:
		s.refuseAll(r)
	}
	s.tell(ctx, r.Op, why)
	return nil
}

// canDecide reports whether the policy may answer: any question, but for other things only if they are done where they
// belong.
func (s *Store) canDecide(r *store.Request) bool {
	switch r.Op {
	case rule.Take, rule.TakeUpTo, rule.Peek:
		return true
	case rule.Charge:
		return s.local != nil || s.optimism != nil
	case rule.GiveBack: // the oldest units, by whichever request they were taken; those of a moment are the store's
		for i := range r.Charges {
			if r.Charges[i].At != rule.Oldest {
				return false
			}
		}
		return s.local != nil || s.optimism != nil
	}
	return false // a settlement or a renewal belongs to where the units and slots are
}

// hope has the policy Optimistic answer a request. It reports false if it cannot.
func (s *Store) hope(r *store.Request, why *unavailable) (done bool) {
	now := s.moment()
	switch r.Op {
	case rule.Charge:
		as := sent // it may have been charged; if it is sent again, it may be charged twice
		if why.unasked {
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
	s.owe()
	return done
}

// hopeOne is hope for a take of a single charge.
func (s *Store) hopeOne(limit *store.Limit, key string, cost int64, why *unavailable) rule.Answer {
	q := hopes.Get().(*hoped)
	q.charge[0] = store.Charge{Limit: limit, Key: key, Cost: cost}
	q.request = store.Request{Op: rule.Take, Charges: q.charge[:], Answers: q.answer[:]}
	s.hope(&q.request, why)
	a := q.answer[0]
	*q = hoped{}
	hopes.Put(q)
	return a
}

// hoped is the memory of hopeOne.
type hoped struct {
	request store.Request
	charge  [1]store.Charge
	answer  [1]rule.Answer
}

var hopes = sync.Pool{New: func() any { return new(hoped) }}

// both is the error of a request that neither the store nor the fallback answered.
func both(why *unavailable, err error) error {
	return fmt.Errorf("%w; and the fallback: %w", why, err)
}

func (s *Store) tell(ctx context.Context, op rule.Op, why *unavailable) {
	s.fallbacks.Add(1)
	if s.opts.OnFallback != nil {
		s.opts.OnFallback(ctx, op, why)
	}
}

// insteadOne is instead for a single charge.
func (s *Store) insteadOne(ctx context.Context, limit *store.Limit, key string, cost int64, why *unavailable) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	possible := cost <= limit.Rule().Capacity()
	if s.optimism != nil {
		a := s.hopeOne(limit, key, cost, why)
		s.tell(ctx, rule.Take, why)
		return a.Allowed, a.Flags, a.Remaining, a.After(), a.ResetAfter, a.At, nil
	}
	if s.local == nil {
		allowed, at = possible && s.policy.flag == rule.FallbackOpen, -s.moment()
		if !allowed {
			after = s.retryAfter(possible)
		}
		s.tell(ctx, rule.Take, why)
		return allowed, s.policy.flag, 0, after, 0, at, nil
	}
	allowed, flags, remaining, after, resetAfter, at, err = s.local.takeOne(ctx, limit, key, cost)
	if err != nil {
		s.undone.Add(1)
		return false, 0, 0, 0, 0, 0, both(why, err)
	}
	if after == rule.Never {
		after = s.retryAfter(possible)
	}
	s.tell(ctx, rule.Take, why)
	return allowed, flags | rule.FallbackLocal, remaining, after, resetAfter, elsewhere(at), nil
}

// retryAfter is when a cost that the policy refused may pass: whenever the store is back, if it can pass at all.
func (s *Store) retryAfter(possible bool) rule.Micros {
	if possible {
		return s.untilProbe()
	}
	return rule.Never
}

// admitAll answers as limits would that nobody has used: with all that was asked for, up to what they admit at best.
func (s *Store) admitAll(r *store.Request) {
	grant, all := int64(rule.MaxQuota), true
	for i := range r.Charges {
		c := &r.Charges[i]
		grant = min(grant, c.Cost, c.Limit.Rule().Capacity())
		all = all && possible(r.Op, c)
	}
	at := -s.moment()
	for i := range r.Charges {
		c, a := &r.Charges[i], &r.Answers[i]
		*a = rule.Answer{Allowed: possible(r.Op, c), Flags: s.policy.flag, At: at}
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
	at := -s.moment()
	for i := range r.Charges {
		r.Answers[i] = rule.Answer{
			Flags: s.policy.flag, RetryAfter: s.retryAfter(possible(r.Op, &r.Charges[i])), At: at,
		}
	}
}

// possible reports whether a limit that nobody has used admits a charge.
func possible(op rule.Op, c *store.Charge) bool {
	return op == rule.TakeUpTo || c.Cost <= c.Limit.Rule().Capacity()
}

// trueRetry corrects what a share of a limit says about a cost that only the whole limit has room for.
func (s *Store) trueRetry(r *store.Request) {
	for i := range r.Charges {
		if a := &r.Answers[i]; a.RetryAfter == rule.Never {
			a.RetryAfter = s.retryAfter(possible(r.Op, &r.Charges[i]))
		}
	}
}

// finishElsewhere gives back, settles or renews what the store never gave: at the fallback, which did. With Open there is nothing
// to give back and no slot that could be lost.
func (s *Store) finishElsewhere(ctx context.Context, r *store.Request) error {
	if s.local != nil {
		return s.local.apply(ctx, r)
	}
	if len(r.Answers) < len(r.Charges) {
		return fmt.Errorf("failure: %w: a request has an answer for each charge, not %d for %d",
			store.ErrUnsupported, len(r.Answers), len(r.Charges))
	}
	if s.optimism != nil {
		s.optimism.finish(r, s.moment())
		s.owe()
		return nil
	}
	at := -s.moment()
	for i := range r.Charges {
		r.Answers[i] = rule.Answer{Allowed: true, Flags: s.policy.flag, At: at}
	}
	return nil
}

// elsewhere marks a moment as not the store's.
func elsewhere(at rule.Micros) rule.Micros {
	return min(-at, at, -1)
}
