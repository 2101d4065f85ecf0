package observe_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/memstore"
)

// Five requests of a key with a quota of three, and the metrics that are then collected. A program would use an
// exporter, such as the one for Prometheus, where this example has a reader.
func Example() {
	reader := metric.NewManualReader()
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	store, err := observe.New(memory, observe.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := slidegate.New(store, slidegate.Limit{Name: "per-user", Quota: 3, Window: 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	for range 5 {
		if _, err := limiter.Allow(context.Background(), "user:42"); err != nil {
			log.Fatal(err)
		}
	}

	var collected metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &collected); err != nil {
		log.Fatal(err)
	}
	var lines []string
	for _, m := range collected.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
			for _, point := range sum.DataPoints {
				outcome, _ := point.Attributes.Value(attribute.Key("outcome"))
				lines = append(lines, fmt.Sprintf("%s %s %d %s", m.Name, outcome.AsString(), point.Value, m.Unit))
			}
		}
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
	// Output:
	// slidegate.decisions admitted 3 {decision}
	// slidegate.decisions refused 2 {decision}
	// slidegate.units.granted  3 {unit}
}
