package stores

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// instruments holds asynchronous metrics that one callback observes.
type instruments struct {
	meter       metric.Meter
	observables []metric.Observable
	errs        []error
}

func newInstruments(provider metric.MeterProvider) *instruments {
	return &instruments{meter: provider.Meter("github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores")}
}

func (i *instruments) gauge(name, unit, what string) metric.Int64ObservableGauge {
	g, err := i.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
	i.observables, i.errs = append(i.observables, g), append(i.errs, err)
	return g
}

func (i *instruments) counter(name, unit, what string) metric.Int64ObservableCounter {
	c, err := i.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
	i.observables, i.errs = append(i.observables, c), append(i.errs, err)
	return c
}

// watch registers observe for the instruments until the stores are closed.
func (o *Opened) watch(i *instruments, observe metric.Callback) error {
	registration, err := i.meter.RegisterCallback(observe, i.observables...)
	if err = errors.Join(append(i.errs, err)...); err != nil {
		return fmt.Errorf("stores: MeterProvider: %w", err)
	}
	o.close = append(o.close, registration.Unregister)
	return nil
}
