package stores

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// watchOutages reports the state of the failure modes' breakers.
func (o *Opened) watchOutages(watch *outages, provider metric.MeterProvider) error {
	if provider == nil {
		return nil
	}
	metrics := newInstruments(provider)
	open := metrics.gauge("slidegate.breaker.open", "", "Whether the breaker is open: the store did not answer and is called only by probes: 1 or 0.")
	trips := metrics.counter("slidegate.breaker.trips", "{trip}", "How often the breaker opened.")
	undone := metrics.counter("slidegate.undone", "{request}",
		"Requests that failed because the store did not answer and no failure mode can decide for it, such as settlements.")
	return o.watch(metrics, func(_ context.Context, to metric.Observer) error {
		for _, m := range watch.modes {
			stats := m.layer.Stats()
			of := metric.WithAttributeSet(attribute.NewSet(attribute.String("store", watch.store), attribute.String("mode", m.name)))
			down := int64(0)
			if stats.Down {
				down = 1
			}
			to.ObserveInt64(open, down, of)
			to.ObserveInt64(trips, stats.Outages, of)
			to.ObserveInt64(undone, stats.Undecided, of)
		}
		return nil
	})
}
