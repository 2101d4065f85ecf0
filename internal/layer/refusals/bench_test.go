package refusals_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// admitAll admits everything at no cost, so that a benchmark measures only the layer.
type admitAll struct{}

func (admitAll) Check(*store.Limit) error { return nil }
func (admitAll) Traits() store.Traits     { return store.Traits{Name: "yes", MaxCharges: 8} }
func (admitAll) Apply(_ context.Context, batch []store.Request) error {
	for i := range batch {
		for k := range batch[i].Answers {
			batch[i].Answers[k] = rule.Answer{Allowed: true}
		}
		batch[i].Err = nil
	}
	return nil
}

func (admitAll) TakeSingle(context.Context, *store.Limit, string, int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	return true, 0, 0, 0, 0, 0, nil
}

func someKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user-%09d", i*7919)
	}
	return keys
}

// BenchmarkMiss measures what the layer adds to an admitted request; without is the cost of the benchmark itself.
func BenchmarkMiss(b *testing.B) {
	for _, kind := range []string{"TakeSingle", "TakeSingle/without", "Apply", "Apply/without", "Apply/two"} {
		b.Run(kind, func(b *testing.B) {
			var st interface {
				store.Store
				store.SingleTaker
			} = layered(b, admitAll{}, refusals.Options{})
			if strings.HasSuffix(kind, "without") {
				st = admitAll{}
			}
			first, second := bound(b, slidegate.PerMinute(10)), bound(b, slidegate.PerHour(100))
			keys := someKeys(4096)
			ctx := context.Background()
			charges, answers := make([]store.Charge, 2), make([]rule.Answer, 2)
			n := 1
			if kind == "Apply/two" {
				n = 2
			}
			batch := []store.Request{{Charges: charges[:n], Answers: answers[:n]}}
			one := strings.HasPrefix(kind, "TakeSingle")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := keys[i%len(keys)]
				if one {
					st.TakeSingle(ctx, first, key, 1)
					continue
				}
				charges[0] = store.Charge{Limit: first, Key: key, Cost: 1}
				charges[1] = store.Charge{Limit: second, Key: key, Cost: 1}
				st.Apply(ctx, batch)
			}
		})
	}
}

// BenchmarkHit measures a refusal from memory.
func BenchmarkHit(b *testing.B) {
	for _, kind := range []string{"TakeSingle", "Apply", "Allow"} {
		b.Run(kind, func(b *testing.B) {
			inner, err := memstore.New(memstore.Options{})
			if err != nil {
				b.Fatal(err)
			}
			st := layered(b, inner, refusals.Options{MaxAge: -1})
			limit := slidegate.Limit{Quota: 1, Window: 24 * time.Hour}
			limiter, err := slidegate.New(st, limit)
			if err != nil {
				b.Fatal(err)
			}
			bound := bound(b, limit)
			keys := someKeys(4096)
			ctx := context.Background()
			for _, key := range keys {
				limiter.Allow(ctx, key)
				limiter.Allow(ctx, key)
			}
			batch := []store.Request{{Charges: make([]store.Charge, 1), Answers: make([]rule.Answer, 1)}}
			before := st.Stats()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := keys[i%len(keys)]
				switch kind {
				case "TakeSingle":
					st.TakeSingle(ctx, bound, key, 1)
				case "Allow":
					limiter.Allow(ctx, key)
				default:
					batch[0].Charges[0] = store.Charge{Limit: bound, Key: key, Cost: 1}
					st.Apply(ctx, batch)
				}
			}
			if after := st.Stats(); after.Misses != before.Misses {
				b.Fatalf("%d requests went to the store, want 0", after.Misses-before.Misses)
			}
		})
	}
}

// BenchmarkHotKey measures refusals from memory of one key on all processors.
func BenchmarkHotKey(b *testing.B) {
	inner, err := memstore.New(memstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	store := layered(b, inner, refusals.Options{MaxAge: -1})
	limiter, err := slidegate.New(store, slidegate.Limit{Quota: 1, Window: 24 * time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			limiter.Allow(context.Background(), "key")
		}
	})
}
