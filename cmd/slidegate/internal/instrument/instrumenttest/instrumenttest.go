// Package instrumenttest reads metrics. Only tests import it.
package instrumenttest

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Reader reads the metrics of a provider. The zero value is not usable; call New.
type Reader struct{ from *metric.ManualReader }

// New returns a provider of metrics, and what reads them.
func New() (*Reader, *metric.MeterProvider) {
	from := metric.NewManualReader()
	return &Reader{from}, metric.NewMeterProvider(metric.WithReader(from))
}

// Read returns the metrics that are whole numbers by their names, without "slidegate.", and attributes, as in
// connections{listener=http}.
func (r *Reader) Read(t interface{ Fatal(...any) }) map[string]int64 {
	var all metricdata.ResourceMetrics
	if err := r.from.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, one := range scope.Metrics {
			var points []metricdata.DataPoint[int64]
			switch data := one.Data.(type) {
			case metricdata.Sum[int64]:
				points = data.DataPoints
			case metricdata.Gauge[int64]:
				points = data.DataPoints
			}
			for _, point := range points {
				var words []string
				for _, a := range point.Attributes.ToSlice() {
					words = append(words, strings.TrimPrefix(string(a.Key), "slidegate.")+"="+a.Value.AsString())
				}
				values[strings.TrimPrefix(one.Name, "slidegate.")+"{"+strings.Join(words, ",")+"}"] = point.Value
			}
		}
	}
	return values
}
