package observe_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const noon = rule.Micros(1_767_268_800_000_000) // 2026-01-01 12:00:00 UTC, where a minute starts

func newMemory(t testing.TB, now func() rule.Micros) *memstore.Store {
	t.Helper()
	return kit.Must(memstore.New(memstore.Options{Now: now}))(t)
}

func open(t testing.TB, inner store.Store, opts observe.Options) *observe.Store {
	t.Helper()
	store, err := observe.New(inner, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func newLimiter(t testing.TB, store store.Store, limits ...slidegate.Limit) *slidegate.Limiter {
	t.Helper()
	return kit.Must(slidegate.New(store, limits...))(t)
}

// newPerCall returns a limiter for limits that are given per call.
func newPerCall(t testing.TB, store store.Store) *slidegate.Limiter {
	t.Helper()
	return kit.Must(slidegate.New(store))(t)
}

func bind(t testing.TB, limit slidegate.Limit) *store.Limit {
	t.Helper()
	return kit.Must(adapter.Bind("test", limit))(t)
}

// batchOnly hides that a store is a SingleTaker.
type batchOnly struct{ store.Store }

// scripted is a store that answers by calling decide.
type scripted struct {
	decide func(*store.Request) error
	traits store.Traits
}

func (s scripted) Apply(_ context.Context, batch []store.Request) (first error) {
	for i := range batch {
		batch[i].Err = s.decide(&batch[i])
		if first == nil {
			first = batch[i].Err
		}
	}
	return first
}

func (s scripted) Check(*store.Limit) error { return nil }

// Layer allows limits to be leased.
func (scripted) Layer() layering.Layer { return layering.Lease }

func (s scripted) Traits() store.Traits {
	if s.traits.Name == "" {
		return store.Traits{Name: "scripted", MaxCharges: 10, RoundTrips: 1}
	}
	return s.traits
}

// scriptedOne is scripted as a SingleTaker.
type scriptedOne struct{ scripted }

func (s scriptedOne) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	var answers [1]rule.Answer
	charges := []store.Charge{{Limit: limit, Key: key, Cost: cost}}
	err = s.Apply(ctx, []store.Request{{Op: rule.Take, Charges: charges, Answers: answers[:]}})
	a := answers[0]
	return a.Allowed, a.Flags, a.Remaining, answering.After(&a), a.ResetAfter, a.At, err
}

// meter is a provider and its reader.
type meter struct {
	t        testing.TB
	reader   *sdkmetric.ManualReader
	provider *sdkmetric.MeterProvider
}

func newMeter(t testing.TB, opts ...sdkmetric.Option) *meter {
	reader := sdkmetric.NewManualReader()
	return &meter{t, reader, sdkmetric.NewMeterProvider(append(opts, sdkmetric.WithReader(reader))...)}
}

func (m *meter) collect() *metricdata.ResourceMetrics {
	m.t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		m.t.Fatal(err)
	}
	return &all
}

// counters returns all counts, one per line, sorted: "name attribute=value,... count". The names of metrics and
// attributes are without "slidegate.", and durations are left out.
func (m *meter) counters() []string {
	m.t.Helper()
	var lines []string
	for _, scope := range m.collect().ScopeMetrics {
		for _, metric := range scope.Metrics {
			sum, ok := metric.Data.(metricdata.Sum[int64])
			if !ok {
				continue
			}
			for _, point := range sum.DataPoints {
				lines = append(lines, fmt.Sprintf("%s %s %d", metric.Name, encode(point.Attributes), point.Value))
			}
		}
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "slidegate.", "")
	}
	slices.Sort(lines)
	return lines
}

func encode(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

func (m *meter) durations() []metricdata.HistogramDataPoint[float64] {
	m.t.Helper()
	for _, scope := range m.collect().ScopeMetrics {
		for _, metric := range scope.Metrics {
			if h, ok := metric.Data.(metricdata.Histogram[float64]); ok && metric.Name == "slidegate.decision.duration" {
				return h.DataPoints
			}
		}
	}
	return nil
}

func (m *meter) want(lines ...string) {
	m.t.Helper()
	if got := m.counters(); !slices.Equal(got, lines) {
		m.t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(lines, "\n  "))
	}
}

func TestContract(t *testing.T) {
	for name, c := range map[string]struct {
		opts observe.Options
		wrap func(store.Store) store.Store
	}{
		"plain":     {opts: observe.Options{DurationEvery: 2}}, // some calls are timed and some are not
		"batchOnly": {wrap: func(s store.Store) store.Store { return batchOnly{s} }},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.MeterProvider = newMeter(t).provider
			storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
				var inner store.Store = newMemory(t, clock.Now)
				if c.wrap != nil {
					inner = c.wrap(inner)
				}
				return open(t, inner, c.opts)
			})
		})
	}
}

// Counting and timing allocate nothing.
func TestAllocations(t *testing.T) {
	for name, opts := range map[string]observe.Options{
		"sample": {},
		"every":  {DurationEvery: 1},
	} {
		opts.MeterProvider = newMeter(t).provider
		for _, inner := range []store.Store{newMemory(t, nil), batchOnly{newMemory(t, nil)}} {
			store := open(t, inner, opts)
			limiter := newLimiter(t, store, slidegate.PerMinute(10))
			refunds := func() { _, _ = limiter.Refund(context.Background(), "k", 1) }
			allow := func() { _, _ = limiter.Allow(context.Background(), "k") }
			for what, f := range map[string]func(){"Allow": allow, "Refund": refunds} {
				f()
				if n := testing.AllocsPerRun(1000, f); n != 0 && !testkit.Race {
					t.Errorf("%s, %T: %s allocates %v times, want 0", name, inner, what, n)
				}
			}
		}
	}
}

// With zero options, all durations of a store that makes round trips are recorded, and a sample of others.
func TestDurationEvery(t *testing.T) {
	const calls = 20_000
	for _, c := range []struct {
		roundTrips, every int
		lease             bool
		least, most       uint64
	}{
		{roundTrips: 1, every: 0, least: calls, most: calls},
		{roundTrips: 0, every: 1, least: calls, most: calls},
		{roundTrips: 0, every: 0, least: 100, most: 300},    // 200 on average, with a standard deviation of 14
		{roundTrips: 1, every: 10, least: 1700, most: 2300}, // 2000, and 42
		{roundTrips: 1, every: 0, lease: true, least: 100, most: 300},
		{roundTrips: 1, every: 1, lease: true, least: calls, most: calls},
	} {
		for _, one := range []bool{false, true} {
			m := newMeter(t)
			var inner store.Store = scripted{
				decide: func(*store.Request) error { return nil },
				traits: store.Traits{Name: "s", MaxCharges: 1, RoundTrips: c.roundTrips},
			}
			if one {
				inner = scriptedOne{inner.(scripted)}
			}
			limiter := newLimiter(t, open(t, inner, observe.Options{MeterProvider: m.provider, DurationEvery: c.every}),
				slidegate.Limit{Quota: 10, Window: time.Minute, Algorithm: slidegate.SlidingWindow, Lease: c.lease})
			for range calls {
				_, _ = limiter.Allow(context.Background(), "k")
			}
			if points := m.durations(); len(points) != 1 || points[0].Count < c.least || points[0].Count > c.most {
				t.Errorf("every %d, lease %t: got %+v, want one point of %d to %d", c.every, c.lease, points, c.least, c.most)
			}
		}
	}
}

// A view can drop the durations, and then the clock is not read; the counts are still there.
func TestDroppedDurationsReadNoClock(t *testing.T) {
	m := newMeter(t, sdkmetric.WithView(sdkmetric.NewView(
		sdkmetric.Instrument{Name: "slidegate.decision.duration"}, sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}})))
	limiter := newLimiter(t, open(t, newMemory(t, nil), observe.Options{MeterProvider: m.provider, DurationEvery: 1}),
		slidegate.Limit{Name: "user", Quota: 3, Window: time.Minute})
	_, _ = limiter.Allow(t.Context(), "k")
	if points := m.durations(); points != nil {
		t.Errorf("got durations %+v, want none", points)
	}
	m.want("decisions limit=user,outcome=admitted,source=store,store=memory 1", "units.granted limit=user,store=memory 1")
}
