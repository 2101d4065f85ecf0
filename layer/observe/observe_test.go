package observe_test

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// These tests do without an SDK; tests of what an SDK collects are in another module, so that users of this package
// need not download it.

func newMemory(t testing.TB, now func() rule.Micros) *memstore.Store {
	t.Helper()
	store, err := memstore.New(memstore.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return store
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

// newPerCall returns a limiter for limits that are given per call.
func newPerCall(t testing.TB, store store.Store) *slidegate.Limiter {
	t.Helper()
	limiter, err := slidegate.New(store)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

func bind(t testing.TB, limit slidegate.Limit) *store.Limit {
	t.Helper()
	bound, err := adapter.Bind("test", limit)
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

// scripted is a store whose answers come from decide.
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

func (s scripted) Traits() store.Traits {
	if s.traits.Name == "" {
		return store.Traits{Name: "scripted", MaxCharges: 10, RoundTrips: 1}
	}
	return s.traits
}

func encode(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

// Traits and Check are those of the inner store.
func TestPassesThrough(t *testing.T) {
	traits := store.Traits{Name: "far", ServerClock: true, MaxCharges: 7, RoundTrips: 2}
	st := open(t, scripted{traits: traits}, observe.Options{MeterProvider: noop.NewMeterProvider(), Name: "mine"})
	if got := st.Traits(); got != traits {
		t.Errorf("got traits %+v", got)
	}
	refusing := open(t, checking{scripted{}}, observe.Options{MeterProvider: noop.NewMeterProvider()})
	if err := refusing.Check(bind(t, slidegate.PerSecond(1))); err != store.ErrUnsupported {
		t.Errorf("Check returned %v", err)
	}
	if err := st.Apply(t.Context(), nil); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
}

type checking struct{ scripted }

func (checking) Check(*store.Limit) error { return store.ErrUnsupported }

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		opts observe.Options
		want string
	}{
		{observe.Options{MaxLimits: -1}, "observe: MaxLimits: must be 1 to"},
		{observe.Options{MaxLimits: 1<<20 + 1}, "observe: MaxLimits: must be 1 to"},
		{observe.Options{DurationEvery: -1}, "observe: DurationEvery: must be 1"},
		{observe.Options{DurationEvery: 1<<30 + 1}, "observe: DurationEvery: must be 1"},
	} {
		if _, err := observe.New(newMemory(t, nil), c.opts); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: got error %v, want %q", c.opts, err, c.want)
		}
	}
	if _, err := observe.New(nil, observe.Options{}); err == nil || !strings.HasPrefix(err.Error(), "observe: inner: must not be nil") {
		t.Errorf("no store: %v", err)
	}
}
