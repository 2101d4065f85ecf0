package observe

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// Options configures a Store. The zero value is valid, and reports to the global MeterProvider.
type Options struct {
	// MeterProvider receives the metrics. nil means otel.GetMeterProvider(), which may be set later.
	MeterProvider metric.MeterProvider
	// Name is the value of the attribute store. Empty means Traits.Name of the observed store, such as "memory"; set it
	// where two stores of a kind are observed.
	Name string
	// MaxLimits is how many limits the attributes policy and limit distinguish, in addition to announced ones; all
	// further limits are called "other". 0 means 200: a limit has up to ten combinations of outcome and source, and the
	// SDK for Go puts those beyond 2,000 combinations of a metric together under otel.metric.overflow.
	MaxLimits int
	// Policy returns the value of the attribute policy for a limit. It is called a few times for each limit. nil
	// means the namespace of the limit.
	Policy func(limit *store.Limit) (name string)
	// DurationEvery samples durations: one of that many calls to the store is timed, at random. Reading the clock twice
	// and recording takes some 300 ns. 0 means 1, every call, for a store that makes round trips, and 100 for one that
	// makes none and for leased limits, whose decisions take less than that. With a view that drops
	// slidegate.decision.duration none is timed.
	DurationEvery int
}

const (
	defaultMaxLimits      = 200
	defaultEveryInProcess = 100 // for calls to a store in the same process, and for leased limits
	defaultEveryRemote    = 1
	maxMaxLimits          = 1 << 20
	maxDurationEvery      = 1 << 30
)

// validate checks the options and sets defaults.
func (o *Options) validate(traits store.Traits) error {
	switch {
	case o.MaxLimits < 0 || o.MaxLimits > maxMaxLimits:
		return fmt.Errorf("observe: MaxLimits: must be 1 to %d, or 0 for %d, not %d", maxMaxLimits, defaultMaxLimits, o.MaxLimits)
	case o.DurationEvery < 0 || o.DurationEvery > maxDurationEvery:
		return fmt.Errorf("observe: DurationEvery: must be 1 for all calls to %d, or 0 for the default, not %d; to have none, "+
			"drop slidegate.decision.duration in a view", maxDurationEvery, o.DurationEvery)
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.Name == "" {
		o.Name = traits.Name
	}
	if o.MaxLimits == 0 {
		o.MaxLimits = defaultMaxLimits
	}
	if o.Policy == nil {
		o.Policy = (*store.Limit).Namespace
	}
	return nil
}

// every returns how many calls there are per timed call, for plain limits and for leased ones.
func (o *Options) every(traits store.Traits) (plain, leased int) {
	switch {
	case o.DurationEvery > 0:
		return o.DurationEvery, o.DurationEvery
	case traits.RoundTrips > 0:
		return defaultEveryRemote, defaultEveryInProcess
	}
	return defaultEveryInProcess, defaultEveryInProcess
}

// Store is a store.Store that observes another. It returns the same answers, and is safe for concurrent use. The zero
// value is not usable; call New.
type Store struct {
	store.Store // the one that is observed

	one   store.SingleTaker // the same
	opts  Options
	tally *tally
	lanes sync.Pool // of *lane
	every [2]int    // calls per timed call: for plain limits, and for leased ones

	durations    metric.Float64Histogram
	durationsFor [kinds + 1][]metric.RecordOption // by kind of error; the last is for none
	registration metric.Registration
	closed       atomic.Bool
}

// New returns a store that returns inner's answers and observes them.
func New(inner store.Store, opts Options) (*Store, error) {
	if inner == nil {
		return nil, fmt.Errorf("observe: inner: must not be nil; pass the store to observe")
	}
	if err := opts.validate(inner.Traits()); err != nil {
		return nil, err
	}
	s := &Store{Store: inner, opts: opts, tally: newTally(opts.MaxLimits, opts.Policy)}
	s.tally.cached, s.tally.fails = layering.Refusals.In(inner), layering.Failure.In(inner)
	s.every[0], s.every[1] = opts.every(inner.Traits())
	s.one = store.Single(inner)
	var last atomic.Uint32
	s.lanes.New = func() any {
		l := &lane{index: last.Add(1)}
		for kind, every := range s.every {
			l.left[kind] = callsUntilTimed(every)
		}
		return l
	}
	if err := s.instruments(); err != nil {
		return nil, fmt.Errorf("observe: MeterProvider: %w", err)
	}
	return s, nil
}

// Close stops reporting this store's counts; what was counted since the last collection is not reported. It does not
// close the inner store, and decisions can still be made.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if err := s.registration.Unregister(); err != nil {
		return fmt.Errorf("observe: MeterProvider: %w", err)
	}
	return nil
}

// Announce reports the metrics of limits from now on, even while they are 0, so that the first event of a limit is an
// increase and not a new series: its units, and its decisions by the store and by the layers below, with the fallbacks of
// its failure mode. Limits that are not announced appear with their first event.
func (s *Store) Announce(limits []*store.Limit) { s.tally.announce(limits) }

// Fallbacks returns how many decisions the failure layer has made so far, by failure mode: the sums of slidegate.decisions
// of this store over the sources fallback_open, fallback_local and fallback_closed.
func (s *Store) Fallbacks() (sums [store.Modes]int64) {
	for _, of := range s.tally.allSeries() {
		for mode := store.FailOpen; mode < store.Modes; mode++ {
			source := sourceOf(fallbackOf[mode])
			sums[mode] += of.sum(allowedBy+source) + of.sum(refusedBy+source)
		}
	}
	return sums
}

// Unwrap returns the store that is observed.
func (s *Store) Unwrap() store.Store { return s.Store }

// Layer returns the layer's place among others: observation may also be under them.
func (s *Store) Layer() layering.Layer { return layering.Observe }

// Apply passes the batch to the inner store, and counts its answers.
func (s *Store) Apply(ctx context.Context, batch []store.Request) error {
	l := s.lanes.Get().(*lane)
	timed := len(batch) > 0 && len(batch[0].Charges) > 0 && s.due(ctx, l, batch[0].Charges[0].Limit)
	var start time.Time
	if timed {
		start = time.Now()
	}
	err := s.Store.Apply(ctx, batch)
	if timed {
		s.record(ctx, time.Since(start), err)
	}
	for i := range batch {
		s.tally.countRequest(&batch[i], l.index)
	}
	s.lanes.Put(l)
	return err
}

// TakeSingle calls the inner store, by TakeSingle if possible, and counts its answer.
func (s *Store) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	l := s.lanes.Get().(*lane)
	if s.due(ctx, l, limit) {
		start := time.Now()
		allowed, flags, remaining, after, resetAfter, at, err = s.one.TakeSingle(ctx, limit, key, cost)
		s.record(ctx, time.Since(start), err)
	} else {
		allowed, flags, remaining, after, resetAfter, at, err = s.one.TakeSingle(ctx, limit, key, cost)
	}
	s.tally.countSingle(limit, l.index, allowed, flags, cost, err)
	s.lanes.Put(l)
	return allowed, flags, remaining, after, resetAfter, at, err
}

// lane is what one processor uses while it decides: concurrent decisions count in different memory, because memory that
// several processors write has to travel between them. A sync.Pool returns to a processor the lane that it had before.
type lane struct {
	index uint32
	left  [2]int64 // how many calls until one is timed; see Store.every
}

// due reports whether this call is to be timed.
func (s *Store) due(ctx context.Context, l *lane, limit *store.Limit) bool {
	kind := 0
	if limit.Rule().Lease {
		kind = 1
	}
	if l.left[kind]--; l.left[kind] > 0 {
		return false
	}
	l.left[kind] = callsUntilTimed(s.every[kind])
	return s.durations.Enabled(ctx)
}

// callsUntilTimed returns the number of calls until one is timed, as if each were chosen with a chance of one in every. So it
// does not matter that the garbage collector drops lanes and new ones start over, nor that traffic is periodic.
func callsUntilTimed(every int) int64 {
	return 1 + int64(rand.ExpFloat64()/-math.Log1p(-1/float64(every)))
}
