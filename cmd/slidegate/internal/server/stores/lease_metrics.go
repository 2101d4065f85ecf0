package stores

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// leaseMetrics reports on leases. Its counters never decrease. The counts of the layers may decrease briefly, while a key is being
// forgotten, or when a request takes back what it spent because another limit refused it.
type leaseMetrics struct {
	leases *leases
	store  metric.MeasurementOption

	keys, out metric.Int64ObservableGauge
	counters  [leaseCounters]metric.Int64ObservableCounter

	mu   sync.Mutex
	most [leaseCounters]int64 // highest value reported
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

// watchLeases reports on the leases of a store, under its name, until it is closed.
func (o *Opened) watchLeases(l *leases, name string, provider metric.MeterProvider) error {
	if provider == nil {
		return nil
	}
	m := &leaseMetrics{leases: l, store: metric.WithAttributeSet(attribute.NewSet(attribute.String("store", name)))}
	metrics := newInstruments(provider)
	m.keys = metrics.gauge("slidegate.leases.keys", "{key}", "Busy keys for which this process holds leases.")
	m.out = metrics.gauge("slidegate.leases.units.out", "{unit}", "Leased units that this process has neither spent nor returned.")
	for i, c := range [leaseCounters]struct{ name, unit, what string }{
		unitsTaken:    {"slidegate.leases.units.taken", "{unit}", "Units leased."},
		unitsSpent:    {"slidegate.leases.units.spent", "{unit}", "Leased units spent on admitted requests."},
		unitsReturned: {"slidegate.leases.units.returned", "{unit}", "Leased units returned to the store because they were not needed in time."},
		unitsWasted: {"slidegate.leases.units.wasted", "{unit}",
			"Leased units neither spent nor returned: the store did not answer, the key was reset, or they had left their window."},
		leaseCalls: {"slidegate.leases.calls", "{call}", "Calls to the store that leased or returned units, for many keys at a time."},
		tripsSaved: {"slidegate.leases.trips.saved", "{call}", "Decisions made from leases, without a call to the store, less the calls for leases."},
	} {
		m.counters[i] = metrics.counter(c.name, c.unit, c.what)
	}
	return o.watch(metrics, m.observe)
}

func (m *leaseMetrics) observe(_ context.Context, to metric.Observer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.leases.stats()
	to.ObserveInt64(m.keys, int64(s.Keys), m.store)
	to.ObserveInt64(m.out, s.Outstanding, m.store)
	for i, value := range [leaseCounters]int64{
		unitsTaken: s.Taken, unitsSpent: s.Spent, unitsReturned: s.Returned, unitsWasted: s.Wasted,
		leaseCalls: s.Calls, tripsSaved: int64(s.Decisions) - s.Calls,
	} {
		m.most[i] = max(m.most[i], value)
		to.ObserveInt64(m.counters[i], m.most[i], m.store)
	}
	return nil
}
