package failure_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// quickStore is a store with a round trip that takes no time, and a TakeSingle.
type quickStore struct {
	store.Store
	store.SingleTaker
}

func (quickStore) Traits() store.Traits {
	return store.Traits{Name: "quick", MaxCharges: 64, RoundTrips: 1}
}

// subjects returns layers in the states to be measured. The healthy ones must stay healthy on a busy machine.
func subjects(t testing.TB) map[string]store.Store {
	down := func(mode store.Mode, opts failure.Options) store.Store {
		inner := newRemote(t)
		inner.fail(errDown)
		opts.ProbeEvery = time.Hour
		st := newStore(t, inner, mode, opts)
		if _, err := apply(t, st, rule.Take, store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1}); err != nil {
			t.Fatal(err)
		}
		return st
	}
	memory, patient := newMemory(t), failure.Options{Timeout: time.Hour}
	return map[string]store.Store{
		"no layer":             memory,
		"healthy memory":       newStore(t, memory, store.FailOpen, patient),
		"healthy, round trips": newStore(t, quickStore{memory, memory}, store.FailOpen, patient),
		"down, open":           down(store.FailOpen, patient),
		"down, closed":         down(store.FailClosed, failure.Options{}),
		"down, local":          down(store.FailLocal, failure.Options{}),
		"down, local / 4":      down(store.FailLocal, failure.Options{Instances: 4}),
	}
}

func BenchmarkTakeOne(b *testing.B) {
	limit := bind(b, slidegate.PerSecond(1_000_000_000))
	for name, st := range subjects(b) {
		b.Run(name, func(b *testing.B) {
			one, ctx := st.(store.SingleTaker), context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_, _, _, _, _, _, _ = one.TakeSingle(ctx, limit, "key", 1)
			}
		})
	}
}

func BenchmarkApply(b *testing.B) {
	limit := bind(b, slidegate.PerSecond(1_000_000_000))
	for name, st := range subjects(b) {
		b.Run(name, func(b *testing.B) {
			ctx := context.Background()
			batch := []store.Request{request(rule.Take, store.Charge{Limit: limit, Key: "key", Cost: 1})}
			b.ReportAllocs()
			for b.Loop() {
				_ = st.Apply(ctx, batch)
			}
		})
	}
}

func TestDoesNotAllocate(t *testing.T) {
	limit := bind(t, slidegate.PerHour(1000))
	for name, st := range subjects(t) {
		if name == "healthy, round trips" {
			continue // a deadline allocates a context
		}
		one, ctx := st.(store.SingleTaker), t.Context()
		batch := []store.Request{request(rule.Take, store.Charge{Limit: limit, Key: "key", Cost: 1})}
		if n := testing.AllocsPerRun(200, func() { _, _, _, _, _, _, _ = one.TakeSingle(ctx, limit, "key", 1) }); n != 0 {
			t.Errorf("%s: TakeSingle allocates %v times, want 0", name, n)
		}
		if n := testing.AllocsPerRun(200, func() { _ = st.Apply(ctx, batch) }); n != 0 && !testkit.Race {
			t.Errorf("%s: Apply allocates %v times, want 0", name, n)
		}
	}
}
