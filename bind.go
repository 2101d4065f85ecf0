package slidegate

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/hook"
	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/internal/leases"
	"github.com/slidegate/slidegate/internal/line"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Packages of this repository reach these functions through internal/adapter, which documents them.
func init() {
	hook.Bind, hook.Unbind, hook.Combine = bindLimit, unbind, combined
	hook.Bound = func(l *Limiter) []*store.Limit { return slices.Clone(l.limits) }
	hook.Over, hook.Declare, hook.Settle, hook.WaitWith = (*Limiter).over, (*Limiter).declare, settleUsed, waitWith
}

// bindLimit checks a limit and binds it to a namespace; see adapter.Bind.
func bindLimit(namespace string, limit Limit) (*store.Limit, error) {
	r, err := limit.compile()
	if err != nil {
		return nil, err
	}
	label := limit.Name
	if label == "" {
		label = limit.String()
	}
	return store.Bind(namespace, limit.Name, label, r), nil
}

// unbind returns the limit that b was made from; see adapter.Unbind.
func unbind(b *store.Limit) Limit {
	r := b.Rule()
	l := Limit{
		Name: b.Name(), Quota: r.Quota, Window: r.Window.Duration(), Algorithm: r.Algorithm,
		Segments: r.Segments, Overlap: r.Overlap, Anchor: r.Anchor, CountRefused: r.CountRefused, Burst: r.Burst,
		Calendar: r.Calendar, Zone: r.Zone, Lease: r.Lease, Hold: r.Hold.Duration(),
	}
	if l.Calendar != 0 {
		l.Window = 0
	}
	if l.Algorithm == rule.DefaultAlgorithm { // the window determines them
		l.Segments, l.Overlap = 0, rule.OverlapUp
	}
	if l.Segments == 1 {
		l.Segments = 0
	}
	if r.Lease && r.Algorithm == TokenBucket {
		l.Burst += leases.Reserve(r)
	}
	if l.Burst == l.Quota {
		l.Burst = 0
	}
	return l
}

// boundLimits caches the results of bindLimit, so that limits given per call cost one map lookup.
type boundLimits struct {
	namespace string
	store     store.Store
	scope     any // identifies the counts; see line.Request

	known atomic.Pointer[map[Limit]*store.Limit] // read without a lock, so the map is never modified

	mu     sync.Mutex
	all    map[Limit]*store.Limit // the limits in known, and those added since
	misses int                    // lookups in all that found a limit missing from known
}

func newBoundLimits(namespace string, on store.Store) *boundLimits {
	b := &boundLimits{namespace: namespace, store: on}
	b.scope = line.Scope(on, b)
	return b
}

// maxBound is how many limits are cached. Further limits still work; they are bound again on each call.
const maxBound = 4096

func (b *boundLimits) bind(limit Limit) (*store.Limit, error) {
	if known := b.known.Load(); known != nil {
		if bound, ok := (*known)[limit]; ok {
			return bound, nil
		}
	}
	if bound, ok := b.lookup(limit); ok {
		return bound, nil
	}
	bound, err := bindLimit(b.namespace, limit)
	if err != nil {
		return nil, err
	}
	if err := b.check(bound); err != nil {
		return nil, err
	}
	return b.add(limit, bound.In(store.ModeOf(b.store))), nil
}

// check returns an error if the store does not support the limit. A limit with Lease needs the lease layer, unless the
// store has no round trip to save.
func (b *boundLimits) check(bound *store.Limit) error {
	if bound.Rule().Lease && b.store.Traits().RoundTrips > 0 {
		if !layering.Lease.In(b.store) {
			return &LimitError{Err: fmt.Errorf("%w: lease: the store does not lease units; "+
				"pass the result of stack.New of package layer/stack, or leave lease out", ErrLimit)}
		}
	}
	return b.store.Check(bound)
}

// lookup looks up a limit that is not in known. It replaces known with a copy of all after as many such lookups as
// there are limits to copy: copying for each new limit would take quadratic time.
func (b *boundLimits) lookup(limit Limit) (bound *store.Limit, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bound, ok = b.all[limit]
	if !ok {
		return nil, false
	}
	if b.misses++; b.misses >= len(b.all) {
		known := maps.Clone(b.all)
		b.known.Store(&known)
		b.misses = 0
	}
	return bound, true
}

func (b *boundLimits) add(limit Limit, bound *store.Limit) *store.Limit {
	b.mu.Lock()
	defer b.mu.Unlock()
	if earlier, ok := b.all[limit]; ok {
		return earlier
	}
	if b.all == nil {
		b.all = map[Limit]*store.Limit{}
	}
	if len(b.all) < maxBound {
		b.all[limit] = bound
	}
	return bound
}
