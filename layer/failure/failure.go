package failure

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Store is a store.Store and SingleTaker that wraps another store, with a policy for when that store fails. It is safe
// for concurrent use. With Optimistic it should be closed; with other policies it holds no resources. The zero value is
// not usable; call New.
type Store struct {
	inner  store.Store
	one    store.SingleTaker // inner, for single charges
	traits store.Traits
	policy Policy
	local  *local // the fallback of Local, otherwise nil
	opts   Options
	direct bool // inner answers from memory: no deadline, no breaker

	optimism *optimism // of Optimistic, otherwise nil

	base     time.Time
	wallBase rule.Micros
	state    atomic.Pointer[state]

	fallbacks, undecided, failures, late, starved, outages, probes, detached atomic.Int64
}

// New returns a store that calls inner, and uses policy when inner does not answer.
func New(inner store.Store, policy Policy, opts Options) (*Store, error) {
	switch {
	case inner == nil:
		return nil, errors.New("failure: store: must not be nil; pass the store that may fail")
	case policy.flag == 0:
		return nil, errors.New("failure: policy: must be Open(), Closed(), Local(store) or Optimistic(k)")
	case policy.flag == rule.FallbackLocal && policy.fallback == nil:
		return nil, errors.New("failure: policy: Local needs a store to fall back to; use memstore.New")
	case policy.flag == rule.FallbackOptimistic && (policy.k < 1 || policy.k > rule.MaxQuota):
		return nil, fmt.Errorf("failure: policy: Optimistic: must be 1 to %d units, not %d", int64(rule.MaxQuota), policy.k)
	}
	if err := opts.fill(policy); err != nil {
		return nil, err
	}
	base := time.Now()
	s := &Store{
		inner: inner, one: store.Single(inner), traits: inner.Traits(), policy: policy, opts: opts,
		base: base, wallBase: rule.Micros(base.UnixMicro()),
	}
	s.direct = s.traits.RoundTrips == 0 && opts.MaxDetached == 0
	if policy.fallback != nil {
		s.local = newLocal(policy.fallback, opts.Instances)
		s.traits.MaxCharges = min(s.traits.MaxCharges, policy.fallback.Traits().MaxCharges)
	}
	if policy.flag == rule.FallbackOptimistic {
		s.optimism = newOptimism(policy.k, opts.MaxPending)
	}
	s.state.Store(new(state))
	return s, nil
}

// Traits returns the traits of the inner store, with the fallback's MaxCharges if that is lower.
func (s *Store) Traits() store.Traits { return s.traits }

// Unwrap returns the inner store.
func (s *Store) Unwrap() store.Store { return s.inner }

// Check returns an error if the inner store or the fallback does not support this limit.
func (s *Store) Check(limit *store.Limit) error {
	if err := s.inner.Check(limit); err != nil || s.local == nil {
		return err
	}
	share, err := s.local.share(limit)
	if err != nil {
		return err
	}
	return s.local.store.Check(share)
}

// Prepare reserves capacity for limits in the inner store and in the fallback, where their capacity is bounded.
func (s *Store) Prepare(limits []*store.Limit) (release func()) {
	var releases []func()
	if inner, ok := store.As[store.Preparer](s.inner); ok {
		releases = append(releases, inner.Prepare(limits))
	}
	if s.local != nil {
		if fallback, ok := store.As[store.Preparer](s.local.store); ok {
			releases = append(releases, fallback.Prepare(limits)) // a share has the shape of the whole limit
		}
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

// Stats returns the current counts.
func (s *Store) Stats() Stats {
	stats := Stats{
		Fallbacks: s.fallbacks.Load(), Undecided: s.undecided.Load(), Failures: s.failures.Load(), Late: s.late.Load(),
		Starved: s.starved.Load(), Outages: s.outages.Load(), Probes: s.probes.Load(), Detached: s.detached.Load(),
		Down: s.state.Load().failed != nil,
	}
	if s.optimism != nil {
		s.optimism.stats(&stats)
	}
	return stats
}

// TakeSingle decides a request with a single charge.
func (s *Store) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	if s.direct {
		allowed, flags, remaining, after, resetAfter, at, err = s.one.TakeSingle(ctx, limit, key, cost)
		if err != nil {
			err = s.failure(ctx, err)
		}
	} else {
		allowed, flags, remaining, after, resetAfter, at, err = s.takeInner(ctx, limit, key, cost)
	}
	if why, ok := err.(*unavailable); ok {
		return s.takeFallback(ctx, limit, key, cost, why)
	}
	if s.optimism != nil && after > 0 && err == nil {
		s.optimism.exhausted.record(address{limit.Prefix(), "", key}, remaining, after, s.now())
	}
	return allowed, flags, remaining, after, resetAfter, at, err
}

// Apply decides a batch of requests: first by the store, then by the policy for the requests that the store did not
// answer, in order.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	if !s.needsMore(batch) {
		if s.applyInner(ctx, batch) == nil {
			s.record(batch)
			return nil
		}
	} else {
		s.applySome(ctx, batch)
	}
	s.record(batch)
	var first error
	for i := range batch {
		r := &batch[i]
		r.Err = s.finish(ctx, r)
		if r.Err != nil && first == nil {
			first = r.Err
		}
	}
	return first
}

// record records answers of the store that bound what may be admitted without it.
func (s *Store) record(batch []store.Request) {
	if s.optimism != nil {
		s.optimism.exhausted.recordAll(batch, s.now())
	}
}

// needsMore reports whether a batch needs more than a call to the store.
func (s *Store) needsMore(batch []store.Request) bool {
	for i := range batch {
		switch batch[i].Op {
		case rule.Reset:
			if s.local != nil || s.optimism != nil {
				return true
			}
		case rule.GiveBack, rule.Settle, rule.Renew:
			if fromStore, _ := takenFrom(batch[i].Charges); !fromStore {
				return true
			}
		}
	}
	return false
}

// followsUp reports whether an operation concerns units or slots taken earlier, so that it belongs where they were
// taken.
func followsUp(op rule.Op) bool { return op == rule.GiveBack || op == rule.Settle || op == rule.Renew }

// takenFrom reports whether the units and slots of charges may be the store's, and whether they may be the fallback's.
// Charges for the oldest units may be either; a request with times of both is neither.
func takenFrom(charges []store.Charge) (fromStore, fromFallback bool) {
	fromStore, fromFallback = true, true
	for i := range charges {
		fromStore = fromStore && charges[i].At >= 0
		fromFallback = fromFallback && charges[i].At <= 0
	}
	return fromStore, fromFallback
}

// applySome passes the requests of a batch that are for the store to the store.
func (s *Store) applySome(ctx context.Context, batch []store.Request) {
	var some []store.Request
	var indexes []int
	for i := range batch {
		r := &batch[i]
		r.Err = nil
		if followsUp(r.Op) {
			if fromStore, _ := takenFrom(r.Charges); !fromStore {
				continue
			}
		}
		some, indexes = append(some, *r), append(indexes, i)
	}
	_ = s.applyInner(ctx, some) // each request has its own error
	for i := range some {
		batch[indexes[i]].Err = some[i].Err
	}
}

// finish completes a request after the call to the store, and returns its error.
func (s *Store) finish(ctx context.Context, r *store.Request) error {
	why, failed := r.Err.(*unavailable)
	switch {
	case r.Err != nil && !failed:
		return r.Err
	case failed:
		return s.fallback(ctx, r, why)
	case r.Op == rule.Reset && s.local != nil:
		return s.local.reset(ctx, r)
	case r.Op == rule.Reset && s.optimism != nil:
		s.optimism.reset(r)
		return nil
	case followsUp(r.Op):
		fromStore, fromFallback := takenFrom(r.Charges)
		switch {
		case fromStore:
			return nil
		case !fromFallback:
			return fmt.Errorf("failure: %w: units of the store and of a fallback in one request; %s them separately",
				store.ErrUnsupported, r.Op)
		}
		return s.finishFallback(ctx, r)
	}
	return nil
}
