package stores

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// leaseMetrics reports what leases do. Counters never go down, though what the layers have counted may, for a moment: while a
// key is being forgotten, or a request takes back what it spent because another limit refused it.
type leaseMetrics struct {
	leases *leases
	store  metric.MeasurementOption

	keys, out metric.Int64ObservableGauge
	counters  [leaseCounters]metric.Int64ObservableCounter

	mu   sync.Mutex
	most [leaseCounters]int64 // that was reported
}

// The counters of leases.
const (
	unitsTaken = iota
	unitsSpent
	unitsReturned
	unitsWasted
	leaseCalls
	tripsSaved
	leaseCounters
)

// watchLeases reports about leases of a store, by its name, until it is closed.
func (o *Opened) watchLeases(l *leases, name string, provider metric.MeterProvider) error {
	if provider == nil {
		return nil
	}
	m := &leaseMetrics{leases: l, store: metric.WithAttributeSet(attribute.NewSet(attribute.String("store", name)))}
	made := newInstruments(provider)
	m.keys = made.gauge("slidegate.leases.keys", "{key}", "Busy keys of leased limits, of which this process takes units in blocks.")
	m.out = made.gauge("slidegate.leases.units.out", "{unit}", "Units that this process has taken in blocks and neither spent nor given back yet.")
	for i, c := range [leaseCounters]struct{ name, unit, what string }{
		unitsTaken:    {"slidegate.leases.units.taken", "{unit}", "Units that were taken in blocks."},
		unitsSpent:    {"slidegate.leases.units.spent", "{unit}", "Units that were admitted from blocks."},
		unitsReturned: {"slidegate.leases.units.returned", "{unit}", "Units of blocks that were given back, because nobody asked for them in time."},
		unitsWasted: {"slidegate.leases.units.wasted", "{unit}",
			"Units of blocks that were neither spent nor given back: the store did not answer, the key was reset, or they had left their window."},
		leaseCalls: {"slidegate.leases.calls", "{call}", "Calls of the store that took blocks or gave units back, many keys at once."},
		tripsSaved: {"slidegate.leases.trips.saved", "{call}", "Decisions that were made from blocks, without a call of the store, less the calls for blocks."},
	} {
		m.counters[i] = made.counter(c.name, c.unit, c.what)
	}
	return o.watch(made, m.observe)
}

func (m *leaseMetrics) observe(_ context.Context, to metric.Observer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.leases.stats()
	to.ObserveInt64(m.keys, int64(s.Keys), m.store)
	to.ObserveInt64(m.out, s.Out, m.store)
	for i, value := range [leaseCounters]int64{
		unitsTaken: s.Taken, unitsSpent: s.Spent, unitsReturned: s.Returned, unitsWasted: s.Wasted,
		leaseCalls: s.Calls, tripsSaved: int64(s.Decisions) - s.Calls,
	} {
		m.most[i] = max(m.most[i], value)
		to.ObserveInt64(m.counters[i], m.most[i], m.store)
	}
	return nil
}
