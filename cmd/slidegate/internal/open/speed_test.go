package open_test

import (
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
)

// BenchmarkMemory shows what observation adds to a decision in memory.
func BenchmarkMemory(b *testing.B) {
	for name, opts := range map[string]open.Options{
		"plain": {}, "observed": {MeterProvider: metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))},
	} {
		b.Run(name, func(b *testing.B) {
			l, err := slidegate.New(openStore(b, "memory:", opts).Store, slidegate.PerHour(1_000_000_000))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Allow(ctx, "ann"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
