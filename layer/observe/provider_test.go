package observe_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/observe"
)

// strictProvider is an SDK that is as strict as the specification allows.
type strictProvider struct {
	noop.MeterProvider
	m *strictMeter
}

func (p strictProvider) Meter(string, ...metric.MeterOption) metric.Meter { return p.m }

type strictMeter struct {
	noop.Meter
	t       *testing.T
	broken  string // an instrument that it cannot create
	collect metric.Callback
}

func (m *strictMeter) Int64ObservableCounter(name string, _ ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	if name == m.broken {
		return nil, errors.New("broken")
	}
	return strictCounter{name: name}, nil
}

func (m *strictMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if name == m.broken {
		return nil, errors.New("broken")
	}
	return strictHistogram{t: m.t}, nil
}

func (m *strictMeter) RegisterCallback(f metric.Callback, of ...metric.Observable) (metric.Registration, error) {
	if m.broken == "callback" {
		return nil, errors.New("broken")
	}
	m.collect = f
	return brokenRegistration{}, nil
}

type brokenRegistration struct{ metric.Registration }

func (brokenRegistration) Unregister() error { return errors.New("cannot") }

type strictCounter struct {
	noop.Int64ObservableCounter
	name string
}

// strictHistogram is not enabled, so nothing should be recorded.
type strictHistogram struct {
	noop.Float64Histogram
	t *testing.T
}

func (h strictHistogram) Record(context.Context, float64, ...metric.RecordOption) {
	h.t.Error("a duration was recorded in a disabled histogram")
}

// strictObserver records what it receives, and that each series comes only once.
type strictObserver struct {
	noop.Observer
	t    *testing.T
	seen map[string]int64
}

func (o strictObserver) ObserveInt64(of metric.Int64Observable, value int64, opts ...metric.ObserveOption) {
	name := fmt.Sprint(of.(strictCounter).name, " ", encode(metric.NewObserveConfig(opts).Attributes()))
	if _, ok := o.seen[name]; ok {
		o.t.Errorf("%s was observed twice", name)
	}
	o.seen[name] = value
}

// An instrument that cannot be created is an error of New, and a failed unregistration is an error of Close.
func TestBrokenProvider(t *testing.T) {
	for _, broken := range []string{"slidegate.decisions", "slidegate.errors", "slidegate.decision.duration", "callback"} {
		opts := observe.Options{MeterProvider: strictProvider{m: &strictMeter{t: t, broken: broken}}}
		if _, err := observe.New(newMemory(t, nil), opts); err == nil || err.Error() != "observe: MeterProvider: broken" {
			t.Errorf("%s: got error %v", broken, err)
		}
	}
	store := open(t, newMemory(t, nil), observe.Options{MeterProvider: strictProvider{m: &strictMeter{t: t}}})
	if err := store.Close(); err == nil || err.Error() != "observe: MeterProvider: cannot" {
		t.Errorf("Close: %v", err)
	}
}

// No series is observed twice in one collection, which not every SDK would add up; and nothing is recorded in a
// disabled histogram.
func TestStrictProvider(t *testing.T) {
	m := &strictMeter{t: t}
	store := open(t, newMemory(t, nil), observe.Options{MeterProvider: strictProvider{m: m}, MaxLimits: 2, DurationEvery: 1})
	limiter := newPerCall(t, store)
	for _, name := range []string{"other", "a", "b", "c", "a"} {
		limit := slidegate.Limit{Name: name, Quota: 2, Window: 1e9}
		_, _ = limiter.For(slidegate.Claim{Limit: limit, Key: "k", Cost: 3}).Allow(t.Context())
	}
	seen := strictObserver{t: t, seen: map[string]int64{}}
	if err := m.collect(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	const rest = ",outcome=refused,source=store,store=memory"
	if got := fmt.Sprint(seen.seen); got != "map[slidegate.decisions limit=a"+rest+":2 slidegate.decisions limit=other"+rest+":3]" {
		t.Errorf("got %s", got)
	}
}

// Several readers may collect concurrently, and each gets everything.
func TestCollectedAtOnce(t *testing.T) {
	m := &strictMeter{t: t}
	limiter := newPerCall(t, open(t, newMemory(t, nil), observe.Options{MeterProvider: strictProvider{m: m}}))
	for i := range 200 {
		limit := slidegate.Limit{Name: fmt.Sprint(i), Quota: 2, Window: 1e9}
		_, _ = limiter.For(slidegate.Claim{Limit: limit, Key: "k", Cost: 1}).Allow(t.Context())
	}
	var reading sync.WaitGroup
	for range 4 {
		reading.Go(func() {
			seen := strictObserver{t: t, seen: map[string]int64{}}
			if err := m.collect(t.Context(), seen); err != nil || len(seen.seen) != 400 {
				t.Errorf("%d series, %v", len(seen.seen), err)
			}
		})
	}
	reading.Wait()
}
