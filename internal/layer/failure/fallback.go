package failure

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// flags are the flags of answers by a mode.
var flags = [store.Modes]rule.Flags{
	store.FailOpen: rule.FallbackOpen, store.FailLocal: rule.FallbackLocal, store.FailClosed: rule.FallbackClosed,
}

// remembered are the flags of a refusal that is repeated without the store, in any mode: the quota is used up, and that was
// decided from memory in this process.
const remembered = rule.Cached | rule.FallbackLocal

// modeOf returns the mode of a limit.
func (s *Store) modeOf(limit *store.Limit) store.Mode {
	if mode := limit.Mode(); mode != 0 {
		return mode
	}
	return s.opts.Mode
}

// strictest returns the strictest mode of the limits of charges.
func (s *Store) strictest(charges []store.Charge) (mode store.Mode) {
	for i := range charges {
		mode = max(mode, s.modeOf(charges[i].Limit))
	}
	return mode
}

// without returns the mode that decides a request without the store. FailOpen admits only while the store is out: a request
// that is only late is decided by Local, so that no client is admitted because it is busy.
func without(mode store.Mode, op rule.Op, why *unavailable) store.Mode {
	if mode == store.FailOpen && (!why.out || op == rule.Charge || op == rule.GiveBack) {
		return store.FailLocal
	}
	return mode
}

// fallback decides a request that the store did not answer, and returns the request's error.
func (s *Store) fallback(ctx context.Context, r *store.Request, why *unavailable) error {
	if len(r.Charges) == 0 || len(r.Answers) < len(r.Charges) {
		return fmt.Errorf("failure: %w: a request has at least one charge and an answer for each, not %d and %d",
			store.ErrUnsupported, len(r.Charges), len(r.Answers))
	}
	own := r.Charges
	defer func() { r.Charges = own }()
	if s.refusals != nil && s.refusals.stillRefused(r, s.now()) {
		if len(own) > 1 {
			s.local.fill(ctx, r)
		}
		s.refused.Add(1)
		s.countFallback(ctx, store.FailLocal, r.Op, why)
		return nil
	}
	mode := without(s.strictest(r.Charges), r.Op, why)
	if err := s.decideWithout(ctx, r, mode, why); err != nil {
		s.undecided.Add(1)
		return err
	}
	s.countFallback(ctx, mode, r.Op, why)
	return nil
}

// decideWithout decides a request by a mode: takes and peeks always, other operations only where they belong.
func (s *Store) decideWithout(ctx context.Context, r *store.Request, mode store.Mode, why *unavailable) error {
	switch {
	case r.Op == rule.Reset:
		if err := s.local.reset(ctx, r); err != nil {
			return bothErrors(ctx, why, err)
		}
		return why
	case r.Op > rule.GiveBack, r.Op == rule.GiveBack && !isOldest(r.Charges): // of what the store took
		return why
	case mode == store.FailLocal:
		if err := s.local.apply(ctx, r); err != nil {
			return bothErrors(ctx, why, err)
		}
		markAll(r, s.mark)
		s.correctRetry(r, why)
	case r.Op == rule.Charge || r.Op == rule.GiveBack:
		return why
	case mode == store.FailOpen:
		s.admitAll(r)
	default:
		s.refuseAll(r, why)
	}
	return nil
}

// isOldest reports whether charges are for the oldest units, whichever request took them.
func isOldest(charges []store.Charge) bool {
	for i := range charges {
		if charges[i].At != rule.Oldest {
			return false
		}
	}
	return true
}

// bothErrors returns the error of a request that neither the store nor Local answered. It says nothing about them if the caller
// has left.
func bothErrors(ctx context.Context, why *unavailable, err error) error {
	if left := ctx.Err(); left != nil {
		return fmt.Errorf("failure: %w", left)
	}
	return fmt.Errorf("%w; and the fallback: %w", why, err)
}

func (s *Store) countFallback(ctx context.Context, mode store.Mode, op rule.Op, why *unavailable) {
	s.fallbacks[mode].Add(1)
	if s.opts.OnFallback != nil {
		s.opts.OnFallback(ctx, mode, op, why)
	}
}

// takeFallback is fallback for a single charge.
func (s *Store) takeFallback(ctx context.Context, limit *store.Limit, key string, cost int64, why *unavailable) (
	allowed bool, flag rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	mode := without(s.modeOf(limit), rule.Take, why)
	possible := cost <= limit.Rule().Capacity()
	now := s.now()
	if s.refusals != nil && possible {
		if left, rest, _ := s.refusals.lookup("", limit, key, cost, now); rest > 0 {
			s.refused.Add(1)
			s.countFallback(ctx, store.FailLocal, rule.Take, why)
			return false, remembered, left, rest, rest, answering.Mark(now, 0), nil
		}
	}
	switch mode {
	case store.FailLocal:
		allowed, flag, remaining, after, resetAfter, at, err = s.local.takeOne(ctx, limit, key, cost)
		if err != nil {
			s.undecided.Add(1)
			return false, 0, 0, 0, 0, 0, bothErrors(ctx, why, err)
		}
		if after == rule.Never {
			after = s.retryAfter(possible, why)
		}
		flag, at = flag|rule.FallbackLocal, answering.Mark(at, s.mark)
	default:
		allowed, flag, at = possible && mode == store.FailOpen, flags[mode], answering.Mark(now, 0)
		if !allowed {
			after = s.retryAfter(possible, why)
		}
	}
	s.countFallback(ctx, mode, rule.Take, why)
	return allowed, flag, remaining, after, resetAfter, at, nil
}

// retryAfter returns when to retry a cost that was refused: at the next probe, or never if the limit cannot admit it.
func (s *Store) retryAfter(possible bool, why *unavailable) rule.Micros {
	if possible {
		return s.untilProbe(why)
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
	at := answering.Mark(s.now(), 0)
	for i := range r.Charges {
		c, a := &r.Charges[i], &r.Answers[i]
		*a = rule.Answer{Allowed: isPossible(r.Op, c), Flags: rule.FallbackOpen, At: at}
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

func (s *Store) refuseAll(r *store.Request, why *unavailable) {
	at := answering.Mark(s.now(), 0)
	for i := range r.Charges {
		r.Answers[i] = rule.Answer{
			Flags: rule.FallbackClosed, RetryAfter: s.retryAfter(isPossible(r.Op, &r.Charges[i]), why), At: at,
		}
	}
}

// isPossible reports whether an unused limit admits a charge.
func isPossible(op rule.Op, c *store.Charge) bool {
	return op == rule.TakeUpTo || c.Cost <= c.Limit.Rule().Capacity()
}

// correctRetry corrects the retry time of a cost that exceeds a share but not the whole limit.
func (s *Store) correctRetry(r *store.Request, why *unavailable) {
	for i := range r.Charges {
		if a := &r.Answers[i]; a.RetryAfter == rule.Never && a.Flags&rule.Repeated == 0 {
			a.RetryAfter = s.retryAfter(isPossible(r.Op, &r.Charges[i]), why)
		}
	}
}
