package rulings

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// measure reports how many rulings are in force, and how long ago they were last read.
func (b *Book) measure() error {
	if b.opts.MeterProvider == nil {
		return nil
	}
	meter := b.opts.MeterProvider.Meter("github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings")
	inForce, err := meter.Int64ObservableGauge("slidegate.rulings", metric.WithUnit("{ruling}"),
		metric.WithDescription("Rulings in force: keys that an operator has blocked or given other limits."))
	age, again := meter.Float64ObservableGauge("slidegate.rulings.age", metric.WithUnit("s"),
		metric.WithDescription("How long ago rulings were last read from the store; absent before the first read. Above a few seconds, changes by other instances are not seen."))
	if err = errors.Join(err, again); err != nil {
		return fmt.Errorf("rulings: MeterProvider: %w", err)
	}
	b.metrics, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		now := time.Now()
		to.ObserveInt64(inForce, int64(b.Table().Count(now)))
		if read := b.read.Load(); read > 0 {
			to.ObserveFloat64(age, now.Sub(time.UnixMicro(read)).Seconds())
		}
		return nil
	}, inForce, age)
	if err != nil {
		return fmt.Errorf("rulings: MeterProvider: %w", err)
	}
	return nil
}

// Close stops reporting metrics.
func (b *Book) Close() error {
	if b.metrics == nil {
		return nil
	}
	return b.metrics.Unregister()
}
