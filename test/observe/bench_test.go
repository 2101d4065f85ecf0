package observe_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/store"
)

func sdkProvider() metric.MeterProvider {
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
}

// BenchmarkAllow measures what the layer adds to a decision in memory: with sampled durations, with the duration of every call, and
// without an SDK.
func BenchmarkAllow(b *testing.B) {
	for _, c := range []struct {
		name string
		opts *observe.Options // nil for the store alone
	}{
		{"alone", nil},
		{"sample", &observe.Options{MeterProvider: sdkProvider()}},
		{"every", &observe.Options{MeterProvider: sdkProvider(), DurationEvery: 1}},
		{"noSDK", &observe.Options{MeterProvider: noop.NewMeterProvider()}},
	} {
		var store store.Store = newMemory(b, nil)
		if c.opts != nil {
			store = open(b, store, *c.opts)
		}
		limiter := newLimiter(b, store, slidegate.PerMinute(1_000_000_000))
		var keys atomic.Int64
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				key := strconv.Itoa(int(keys.Add(1))) // one each, so that they do not contend in the store itself
				for pb.Next() {
					_, _ = limiter.Allow(context.Background(), key)
				}
			})
		})
	}
}

// BenchmarkSynchronousAdd measures the cost if each decision were added to the meter immediately.
func BenchmarkSynchronousAdd(b *testing.B) {
	counter, err := sdkProvider().Meter("bench").Int64Counter("decisions")
	if err != nil {
		b.Fatal(err)
	}
	options := []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(
		attribute.String("limit", "per-user"), attribute.String("outcome", "admitted"),
		attribute.String("source", "store"), attribute.String("store", "memory")))}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			counter.Add(context.Background(), 1, options...)
		}
	})
}
