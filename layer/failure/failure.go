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

// Store is a store.Store and SingleTaker over another store, with a policy for when that fails. It is safe for
// concurrent use. With Optimistic it should be closed; with other policies it holds nothing. The zero value is not usable; New makes
// it.
type Store struct {
	inner  store.Store
	one    store.SingleTaker // the same store
	traits store.Traits
	policy Policy
	local  *local // the fallback of Local, else nil
	opts   Options
	direct bool // the store answers from memory: no deadline, no breaker

	optimism *optimism // of Optimistic, else nil

	base     time.Time
	wallBase rule.Micros
	state    atomic.Pointer[state]

	fallbacks, undone, failures, late, starved, outages, probes, detached atomic.Int64
}

// New returns a store that asks inner, and policy when inner does not answer.
func New(inner store.Store, policy Policy, opts Options) (*Store, error) {
	switch {
	case inner == nil:
		return nil, errors.New("failure: store: must not be nil; it is the one that may fail")
	case policy.flag == 0:
		return nil, errors.New("failure: policy: must be Open(), Closed(), Local(store) or Optimistic(k)")
	case policy.flag == rule.FallbackLocal && policy.fallback == nil:
		return nil, errors.New("failure: policy: Local needs a store to fall back to; memstore.New makes one")
	case policy.flag == rule.FallbackOptimistic && (policy.k < 1 || policy.k > rule.MaxQuota):
		return nil, fmt.Errorf("failure: policy: Optimistic: must be given 1 to %d units, not %d", int64(rule.MaxQuota), policy.k)
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

// Traits are those of the store below, but that the fallback may decide fewer charges at once.
func (s *Store) Traits() store.Traits { return s.traits }

// Unwrap returns the store below.
func (s *Store) Unwrap() store.Store { return s.inner }

// Check returns an error if the store below or the fallback cannot keep this limit.
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

// Prepare makes room for limits in the store below and in the fallback, where those have bounded room.
func (s *Store) Prepare(limits []*store.Limit) (release func()) {
	var releases []func()
	if inner, ok := store.As[store.Preparer](s.inner); ok {
		releases = append(releases, inner.Prepare(limits))
	}
	if s.local != nil {
		if fallback, ok := store.As[store.Preparer](s.local.store); ok {
			releases = append(releases, fallback.Prepare(limits)) // a share has the shape of the whole
		}
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

// Stats tells what happened so far.
func (s *Store) Stats() Stats {
	stats := Stats{
		Fallbacks: s.fallbacks.Load(), Undone: s.undone.Load(), Failures: s.failures.Load(), Late: s.late.Load(),
		Starved: s.starved.Load(), Outages: s.outages.Load(), Probes: s.probes.Load(), Detached: s.detached.Load(),
		Down: s.state.Load().failed != nil,
	}
	if s.optimism != nil {
		s.optimism.stats(&stats)
	}
	return stats
}

// TakeSingle decides a request of a single charge.
func (s *Store) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	if s.direct {
		allowed, flags, remaining, after, resetAfter, at, err = s.one.TakeSingle(ctx, limit, key, cost)
		if err != nil {
			err = s.failure(ctx, err)
		}
	} else {
		allowed, flags, remaining, after, resetAfter, at, err = s.askOne(ctx, limit, key, cost)
	}
	if why, ok := err.(*unavailable); ok {
		return s.insteadOne(ctx, limit, key, cost, why)
	}
	if s.optimism != nil && after > 0 && err == nil {
		s.optimism.noRoom.hear(address{limit.Prefix(), "", key}, remaining, after, s.moment())
	}
	return allowed, flags, remaining, after, resetAfter, at, err
}

// Apply decides a batch of requests: the store first, then the policy whatever the store did not answer, in order.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	if !s.needsMore(batch) {
		if s.ask(ctx, batch) == nil {
			s.hear(batch)
			return nil
		}
	} else {
		s.askSome(ctx, batch)
	}
	s.hear(batch)
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

// hear takes note of what the store answered, where that bounds what may be admitted without it.
func (s *Store) hear(batch []store.Request) {
	if s.optimism != nil {
		s.optimism.noRoom.hearAll(batch, s.moment())
	}
}

// needsMore reports whether there is anything to be done besides asking the store.
func (s *Store) needsMore(batch []store.Request) bool {
	for i := range batch {
		switch batch[i].Op {
		case rule.Reset:
			if s.local != nil || s.optimism != nil {
				return true
			}
		case rule.GiveBack, rule.Settle, rule.Renew:
			if store, _ := takenFrom(batch[i].Charges); !store {
				return true
			}
		}
	}
	return false
}

// goesBack reports whether an operation is about what was taken before, so that it belongs to where that was.
func goesBack(op rule.Op) bool { return op == rule.GiveBack || op == rule.Settle || op == rule.Renew }

// takenFrom reports whether the units and slots of charges are the store's, or were given by what answered in its place. The
// oldest units may be of either; a request with moments of both is neither.
func takenFrom(charges []store.Charge) (store, elsewhere bool) {
	store, elsewhere = true, true
	for i := range charges {
		store = store && charges[i].At >= 0
		elsewhere = elsewhere && charges[i].At <= 0
	}
	return store, elsewhere
}

// askSome asks the store those requests of a batch that are for it.
func (s *Store) askSome(ctx context.Context, batch []store.Request) {
	var some []store.Request
	var place []int
	for i := range batch {
		r := &batch[i]
		r.Err = nil
		if goesBack(r.Op) {
			if store, _ := takenFrom(r.Charges); !store {
				continue
			}
		}
		some, place = append(some, *r), append(place, i)
	}
	_ = s.ask(ctx, some) // each request has its own
	for i := range some {
		batch[place[i]].Err = some[i].Err
	}
}

// finish does what is left to do for a request, and returns its error.
func (s *Store) finish(ctx context.Context, r *store.Request) error {
	why, failed := r.Err.(*unavailable)
	switch {
	case r.Err != nil && !failed:
		return r.Err
	case failed:
		return s.instead(ctx, r, why)
	case r.Op == rule.Reset && s.local != nil:
		return s.local.reset(ctx, r)
	case r.Op == rule.Reset && s.optimism != nil:
		s.optimism.reset(r)
		return nil
	case goesBack(r.Op):
		fromStore, elsewhere := takenFrom(r.Charges)
		switch {
		case fromStore:
			return nil
		case !elsewhere:
			return fmt.Errorf("failure: %w: units of the store and of a fallback in one request; %s them one after the other",
				store.ErrUnsupported, r.Op)
		}
		return s.finishElsewhere(ctx, r)
	}
	return nil
}
