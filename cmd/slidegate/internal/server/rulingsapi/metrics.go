package rulingsapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/rulings"
)

// measure reports how many rulings are in force, and how long ago they were last read.
func (a *API) measure() error {
	if a.opts.MeterProvider == nil {
		return nil
	}
	meter := a.opts.MeterProvider.Meter("github.com/slidegate/slidegate/rulings")
	inForce, err := meter.Int64ObservableGauge("slidegate.rulings", metric.WithUnit("{ruling}"),
		metric.WithDescription("Rulings in force: keys that an operator has blocked or given other limits. Those that a policy here cannot apply do not count. Absent before the first read."))
	age, again := meter.Float64ObservableGauge("slidegate.rulings.age", metric.WithUnit("s"),
		metric.WithDescription("How long ago rulings were last read from the store, or how long it has been tried since the start. Above a few seconds, changes by other instances are not seen."))
	revision, third := meter.Int64ObservableGauge("slidegate.rulings.revision", metric.WithUnit("{change}"),
		metric.WithDescription("Number of changes of rulings so far, the same on all instances that apply the same rulings; absent before the first read."))
	if err = errors.Join(err, again, third); err != nil {
		return fmt.Errorf("rulings: MeterProvider: %w", err)
	}
	a.metrics, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		to.ObserveFloat64(age, a.book.Age().Seconds())
		if !a.book.ReadAt().IsZero() {
			applied := slices.DeleteFunc(a.book.Table().InForce(time.Now()), func(r rulings.Ruling) bool { return !a.opts.Applies(&r) })
			to.ObserveInt64(inForce, int64(len(applied)))
			to.ObserveInt64(revision, a.book.Revision())
		}
		return nil
	}, inForce, age, revision)
	if err != nil {
		return fmt.Errorf("rulings: MeterProvider: %w", err)
	}
	return nil
}

// Close stops reporting metrics.
func (a *API) Close() error {
	if a.metrics == nil {
		return nil
	}
	return a.metrics.Unregister()
}
