package failure

import (
	"context"
	"crypto/rand"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Store is a store.Store and SingleTaker that wraps another store, and decides by the failure modes of limits when that store
// fails. It is safe for concurrent use, and should be closed. The zero value is not usable; call New.
type Store struct {
	inner  store.Store
	one    store.SingleTaker // inner, for single charges
	traits store.Traits
	opts   Options
	direct bool // inner answers from memory: no deadline, no breaker
	local  *local
	mark   int // of times at which Local counted

	bottom    store.Store            // inner without layers, for probes
	healthKey string                 // of probes
	nodes     store.Nodes            // inner, if it has several nodes
	whole     *node                  // the only node if it has not
	others    []atomic.Pointer[node] // by number, if it has
	lateKeys  *lateKeys
	refusals  *refusals // nil if direct
	waiting   atomic.Int64

	countdowns sync.Pool

	base     time.Time
	wallBase rule.Micros
	life     context.Context // ends with Close
	endLife  context.CancelFunc
	watcher  *time.Timer
	changes  sync.Mutex // orders changes of breakers
	health   atomic.Pointer[unavailable]

	fallbacks                                                          [store.Modes]atomic.Int64
	refused, undecided, failures, late, shed, starved, outages, probes atomic.Int64
}

// New returns a store that calls inner, and decides by opts when inner does not answer.
func New(inner store.Store, opts Options) *Store {
	opts.fill()
	base := time.Now()
	s := &Store{
		inner: inner, one: store.Single(inner), traits: inner.Traits(), opts: opts,
		local: newLocal(opts.Local, opts.Instances),
		base:  base, wallBase: rule.Micros(base.UnixMicro()), whole: new(node), bottom: belowLayers(inner), healthKey: rand.Text(),
		lateKeys: &lateKeys{seed: maphash.MakeSeed()}, mark: newMark(),
	}
	s.countdowns.New = s.newCountdown
	s.life, s.endLife = context.WithCancel(context.Background())
	s.direct = s.traits.RoundTrips == 0
	s.traits.MaxCharges = min(s.traits.MaxCharges, opts.Local.Traits().MaxCharges)
	if s.direct {
		return s
	}
	if nodes, ok := store.As[store.Nodes](inner); ok {
		s.nodes, s.others = nodes, make([]atomic.Pointer[node], maxNodes)
	}
	s.refusals = &refusals{seed: maphash.MakeSeed()}
	if opts.Watch {
		s.watcher = time.AfterFunc(time.Hour, s.watch)
		s.watcher.Reset(0)
	}
	return s
}

// Layer returns layering.Failure.
func (s *Store) Layer() layering.Layer { return layering.Failure }

// Traits returns the traits of the inner store, with Local's MaxCharges if that is lower.
func (s *Store) Traits() store.Traits { return s.traits }

// Unwrap returns the inner store.
func (s *Store) Unwrap() store.Store { return s.inner }

// Check returns an error if the inner store or Local does not support this limit.
func (s *Store) Check(limit *store.Limit) error {
	if err := s.inner.Check(limit); err != nil {
		return err
	}
	share, err := s.local.share(limit)
	if err != nil {
		return err
	}
	return s.local.store.Check(share)
}

// Prepare reserves capacity for limits in the inner store and in Local, where their capacity is bounded.
func (s *Store) Prepare(limits []*store.Limit) (release func()) {
	var releases []func()
	if inner, ok := store.As[store.Preparer](s.inner); ok {
		releases = append(releases, inner.Prepare(limits))
	}
	if fallback, ok := store.As[store.Preparer](s.local.store); ok {
		releases = append(releases, fallback.Prepare(limits)) // a share has the shape of the whole limit
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
		Refusals: s.refused.Load(), Undecided: s.undecided.Load(), Failures: s.failures.Load(), Late: s.late.Load(),
		Shed: s.shed.Load(), Starved: s.starved.Load(), Outages: s.outages.Load(), Probes: s.probes.Load(), Down: s.Health() != nil,
	}
	for mode := range stats.Fallbacks {
		stats.Fallbacks[mode] = s.fallbacks[mode].Load()
	}
	return stats
}

// Health returns nil if the store is called, or why it is out. The error wraps ErrUnavailable.
func (s *Store) Health() error {
	if why := s.health.Load(); why != nil {
		return why
	}
	return nil
}

// TakeSingle decides a request with a single charge.
func (s *Store) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	if s.direct {
		allowed, flags, remaining, after, resetAfter, at, err = s.one.TakeSingle(ctx, limit, key, cost)
		if err != nil {
			err = s.unanswered(ctx, s.whole, err, true)
		}
	} else {
		allowed, flags, remaining, after, resetAfter, at, err = s.takeInner(ctx, limit, key, cost)
	}
	if why, ok := err.(*unavailable); ok {
		return s.takeFallback(ctx, limit, key, cost, why)
	}
	return allowed, flags, remaining, after, resetAfter, at, err
}

// Apply decides a batch of requests: first by the store, then by the failure mode for the requests that the store did not
// answer, in order.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	var sent moment
	switch {
	case len(batch) == 0:
		return nil
	case !s.direct:
		now := time.Now()
		sent = moment{s.wall(int64(now.Sub(s.base))), s.refusals.forgets.Load()}
		s.send(ctx, batch, now)
	case !isPlain(batch):
		s.send(ctx, batch, s.base)
	default:
		if err := s.inner.Apply(ctx, batch); err == nil {
			return nil
		} else {
			batches.Spread(batch, err)
			s.explain(ctx, s.whole, batch, false, true)
		}
	}
	for i := range batch {
		r := &batch[i]
		r.Err = s.finish(ctx, r, sent)
	}
	return batches.FirstError(batch)
}

// isPlain reports whether all requests are for the store alone.
func isPlain(batch []store.Request) bool {
	for i := range batch {
		if batch[i].Op > rule.Charge {
			return false
		}
	}
	return true
}

// finish completes a request that was sent to the store, if it is for the store, and returns its error.
func (s *Store) finish(ctx context.Context, r *store.Request, sent moment) error {
	if r.Err != nil {
		if why, ok := r.Err.(*unavailable); ok {
			return s.fallback(ctx, r, why)
		}
		return r.Err
	}
	if isFallbacks(r) {
		return s.finishFallback(ctx, r)
	}
	if s.refusals != nil {
		s.refusals.recordAll(r, sent)
	}
	if r.Op == rule.Reset {
		return s.local.reset(ctx, r)
	}
	return nil
}

// isFallbacks reports whether a request concerns units or slots that were taken without the store, so that it is not for the
// store. Their At is marked. Charges for the oldest units are the store's.
func isFallbacks(r *store.Request) bool {
	if !followsUp(r.Op) {
		return false
	}
	for i := range r.Charges {
		if r.Charges[i].At < 0 {
			return true
		}
	}
	return false
}

// followsUp reports whether an operation concerns units or slots taken earlier, so that it belongs where they were
// taken.
func followsUp(op rule.Op) bool { return op == rule.GiveBack || op == rule.Settle || op == rule.Renew }
