package gate_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument/instrumenttest"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

var ctx = context.Background()

// newClock returns a store clock that only the test advances. It starts well within a window of any length that divides
// a day.
func newClock() *storetest.Clock { return storetest.NewClock(1_800_000_000_000_000) }

// memory returns a store that uses the clock.
func memory(t testing.TB, c *storetest.Clock) *memstore.Store {
	t.Helper()
	store, err := newMemory(c)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func newMemory(c *storetest.Clock) (*memstore.Store, error) {
	return memstore.New(memstore.Options{Now: c.Now})
}

// recordingStore is a store that records its requests, and can fail.
type recordingStore struct {
	store.Store
	applies, requests atomic.Int64
	failing           atomic.Pointer[string] // requests whose namespace contains this fail
}

var errStore = errors.New("the store is broken")

func (w *recordingStore) Apply(ctx context.Context, batch []store.Request) error {
	w.applies.Add(1)
	w.requests.Add(int64(len(batch)))
	failing := w.failing.Load()
	if failing == nil {
		return w.Store.Apply(ctx, batch)
	}
	var first error
	for i := range batch {
		if strings.Contains(batch[i].Charges[0].Limit.Namespace(), *failing) {
			batch[i].Err = errStore
		} else {
			_ = w.Store.Apply(ctx, batch[i:i+1])
		}
		if first == nil {
			first = batch[i].Err
		}
	}
	return first
}

func (w *recordingStore) fail(namespace string) { w.failing.Store(&namespace) }

func newGate(t testing.TB, st store.Store, opts gate.Options, policies ...config.Policy) *gate.Gate {
	t.Helper()
	g, err := gate.New(&config.File{Policies: policies}, st, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func template(text string) fields.Template {
	t, err := fields.ParseTemplate(text)
	if err != nil {
		panic(err)
	}
	return t
}

func limit(text string) slidegate.Limit {
	l, err := slidegate.ParseLimit(text)
	if err != nil {
		panic(err)
	}
	return l
}

func limits(texts ...string) (limits []slidegate.Limit) {
	for _, text := range texts {
		limits = append(limits, limit(text))
	}
	return limits
}

// policyOf returns a policy with these limits, for keys that applications send.
func policyOf(name string, texts ...string) config.Policy {
	return config.Policy{Name: name, Key: template("{key}"), Limits: limits(texts...)}
}

// measured reads the metrics that are not 0.
type measured struct{ *instrumenttest.Reader }

func newMeasured() (*measured, *metric.MeterProvider) {
	reader, provider := instrumenttest.New()
	return &measured{reader}, provider
}

func (m *measured) read(t interface{ Fatal(...any) }) map[string]int64 {
	values := m.Read(t)
	maps.DeleteFunc(values, func(_ string, n int64) bool { return n == 0 })
	return values
}

func mustAllow(t testing.TB, g *gate.Gate, req gate.Request) policy.Decision {
	t.Helper()
	v, err := g.Do(ctx, gate.Allow, req)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
