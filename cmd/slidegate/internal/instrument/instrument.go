// Package instrument reports the metrics of the service from tables. A row of a table is one metric: its name, its unit, what it means,
// and how its value is read. The values are read when they are collected, so that counting costs nothing but the count itself.
package instrument

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Scope is the instrumentation scope of all metrics of the service.
const Scope = "github.com/slidegate/slidegate"

// Kind is the kind of a metric.
type Kind int

// The kinds of metrics.
const (
	Counter Kind = iota // a whole number that never decreases
	Gauge               // a whole number
	Seconds             // a gauge with a fraction
)

// Report reports a value of a metric.
type Report func(value float64, attributes ...attribute.KeyValue)

// Row is a metric. Its values are read from a T: by Value if there is one value, otherwise by Each.
type Row[T any] struct {
	Name  string // with dots, such as slidegate.connections.refused
	Unit  string // such as {connection}, By or s; empty for 1 and 0
	Kind  Kind
	Help  string                      // a sentence
	Value func(from T) int64          // that of a Counter may decrease briefly; the largest so far is reported
	Each  func(from T, report Report) // reports any number of values, with different attributes
}

// Register reports the rows of a table, with attributes that all of them have, until unregister is called. At each collection, read is
// called once for all rows.
func Register[T any](provider metric.MeterProvider, table []Row[T], read func() T, attributes ...attribute.KeyValue) (unregister func() error, err error) {
	meter := provider.Meter(Scope)
	instruments := make([]metric.Observable, len(table))
	for i := range table {
		if instruments[i], err = table[i].create(meter); err != nil {
			return nil, fmt.Errorf("metric %s: %w", table[i].Name, err)
		}
	}
	var mu sync.Mutex // there may be several readers
	largest := make([]int64, len(table))
	registration, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		mu.Lock()
		defer mu.Unlock()
		from := read()
		for i := range table {
			row := &table[i]
			report := func(value float64, own ...attribute.KeyValue) {
				observe(to, instruments[i], value, metric.WithAttributes(append(own, attributes...)...))
			}
			if row.Each != nil {
				row.Each(from, report)
				continue
			}
			value := row.Value(from)
			if row.Kind == Counter {
				largest[i] = max(largest[i], value)
				value = largest[i]
			}
			report(float64(value))
		}
		return nil
	}, instruments...)
	if err != nil {
		return nil, fmt.Errorf("metric %s: %w", table[0].Name, err)
	}
	return registration.Unregister, nil
}

func (r *Row[T]) create(meter metric.Meter) (metric.Observable, error) {
	unit, help := metric.WithUnit(r.Unit), metric.WithDescription(r.Help)
	switch r.Kind {
	case Counter:
		return meter.Int64ObservableCounter(r.Name, unit, help)
	case Gauge:
		return meter.Int64ObservableGauge(r.Name, unit, help)
	}
	return meter.Float64ObservableGauge(r.Name, unit, help)
}

func observe(to metric.Observer, instrument metric.Observable, value float64, attributes metric.ObserveOption) {
	switch instrument := instrument.(type) {
	case metric.Int64Observable:
		to.ObserveInt64(instrument, int64(value), attributes)
	case metric.Float64Observable:
		to.ObserveFloat64(instrument, value, attributes)
	}
}

// OneIf returns 1 or 0.
func OneIf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// Names returns the names of the metrics of a table in the format of Prometheus, for the test of their documentation.
func Names[T any](table []Row[T]) (names []string) {
	for i := range table {
		name := strings.ReplaceAll(table[i].Name, ".", "_") + map[string]string{"s": "_seconds", "By": "_bytes"}[table[i].Unit]
		if table[i].Kind == Counter {
			name += "_total"
		}
		names = append(names, name)
	}
	return names
}
