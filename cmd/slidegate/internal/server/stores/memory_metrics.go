package stores

import (
	"cmp"
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/memstore"
)

// memoryMetrics reports how full a store in memory is, and what became of keys that it had no room for, by limit. Counters never
// go down, though the store drops the limits that nobody uses, and what it counted for them.
type memoryMetrics struct {
	memory *memstore.Store
	store  attribute.KeyValue

	used, bound                  metric.Int64ObservableGauge // bytes
	held, forgotten              metric.Int64ObservableGauge // keys
	evictions, recalled, refused metric.Int64ObservableCounter

	mu     sync.Mutex
	seen   map[memoryLimit]memoryCounts // what was last read of each limit
	labels map[memoryLabel]*memoryCounts
}

// memoryLimit is what the store tells limits apart by.
type memoryLimit struct{ namespace, name, shape string }

// memoryLabel is what metrics tell them apart by: the name of the limit, or its shape if it has none.
type memoryLabel struct{ policy, limit string }

// memoryCounts are the counts of one limit, or of all with one label.
type memoryCounts struct{ held, forgotten, evictions, recalled, refused int64 }

// maxMemoryLabels is how many labels there are at most; further limits are counted together as "other".
const maxMemoryLabels = 200

// watchMemory reports about a store in memory until it is closed. Name says which one it is, where there are two.
func (o *Opened) watchMemory(memory *memstore.Store, name string, provider metric.MeterProvider) error {
	if provider == nil {
		return nil
	}
	m := &memoryMetrics{
		memory: memory, store: attribute.String("store", name),
		seen: map[memoryLimit]memoryCounts{}, labels: map[memoryLabel]*memoryCounts{},
	}
	made := newInstruments(provider)
	m.used = made.gauge("slidegate.memory.used", "By", "Memory that a store in this process takes for keys.")
	m.bound = made.gauge("slidegate.memory.bound", "By", "Memory that a store in this process takes at most.")
	m.held = made.gauge("slidegate.memory.keys.held", "{key}", "Keys in memory, those included that have expired and whose place is not taken yet.")
	m.forgotten = made.gauge("slidegate.memory.keys.forgotten", "{key}", "Keys that lost their place and of which an upper bound is remembered.")
	m.evictions = made.counter("slidegate.memory.evictions", "{key}", "Live keys that lost their place to others.")
	m.recalled = made.counter("slidegate.memory.recalled", "{decision}", "Decisions about keys that had lost their place, or look like one that had.")
	m.refused = made.counter("slidegate.memory.recalled.refused", "{decision}", "Decisions about such keys that were refusals.")
	return o.watch(made, m.observe)
}

func (m *memoryMetrics) observe(_ context.Context, to metric.Observer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := m.memory.Stats()
	store := metric.WithAttributeSet(attribute.NewSet(m.store))
	to.ObserveInt64(m.used, stats.Bytes, store)
	to.ObserveInt64(m.bound, stats.MaxBytes, store)
	m.add(stats.Limits)
	for label, counts := range m.labels {
		who := metric.WithAttributeSet(attribute.NewSet(
			m.store, attribute.String("policy", label.policy), attribute.String("limit", label.limit)))
		to.ObserveInt64(m.held, counts.held, who)
		to.ObserveInt64(m.forgotten, counts.forgotten, who)
		to.ObserveInt64(m.evictions, counts.evictions, who)
		to.ObserveInt64(m.recalled, counts.recalled, who)
		to.ObserveInt64(m.refused, counts.refused, who)
	}
	return nil
}

// add adds what the limits have counted since the last time.
func (m *memoryMetrics) add(limits []memstore.LimitStats) {
	for _, counts := range m.labels {
		counts.held, counts.forgotten = 0, 0
	}
	now := make(map[memoryLimit]memoryCounts, len(limits))
	for _, l := range limits {
		id := memoryLimit{l.Namespace, l.Name, l.Shape}
		before := m.seen[id]
		if l.Evictions < before.evictions || l.Recalled < before.recalled || l.Refused < before.refused {
			before = memoryCounts{} // it was dropped and came back
		}
		now[id] = memoryCounts{evictions: l.Evictions, recalled: l.Recalled, refused: l.Refused}
		to := m.countsOf(memoryLabel{policyName(l.Namespace), cmp.Or(l.Name, l.Shape)})
		to.held += l.Held
		to.forgotten += l.Forgotten
		to.evictions += l.Evictions - before.evictions
		to.recalled += l.Recalled - before.recalled
		to.refused += l.Refused - before.refused
	}
	m.seen = now
}

func (m *memoryMetrics) countsOf(label memoryLabel) *memoryCounts {
	if m.labels[label] == nil && len(m.labels) >= maxMemoryLabels {
		label = memoryLabel{"other", "other"}
	}
	if m.labels[label] == nil {
		m.labels[label] = &memoryCounts{}
	}
	return m.labels[label]
}
