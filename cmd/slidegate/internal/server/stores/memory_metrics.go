package stores

import (
	"cmp"
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/memstore"
)

// memoryMetrics reports how full a store in memory is, and what happened to evicted keys, by limit. Its counters never decrease,
// even when the store drops unused limits together with their counts.
type memoryMetrics struct {
	memory *memstore.Store
	store  attribute.KeyValue

	used, bound                  metric.Int64ObservableGauge // bytes
	held, forgotten              metric.Int64ObservableGauge // keys
	evictions, recalled, refused metric.Int64ObservableCounter

	mu     sync.Mutex
	seen   map[memoryLimit]memoryCounts // the last reading of each limit
	labels map[memoryLabel]*memoryCounts
}

// memoryLimit identifies a limit in the store.
type memoryLimit struct{ namespace, name, shape string }

// memoryLabel identifies a limit in metrics: by its name, or by its shape if it has none.
type memoryLabel struct{ policy, limit string }

// memoryCounts are the counts of one limit, or of all limits with one label.
type memoryCounts struct{ held, forgotten, evictions, recalled, refused int64 }

// maxMemoryLabels is the maximum number of labels; further limits are counted together as "other".
const maxMemoryLabels = 200

// watchMemory reports on a store in memory until it is closed. The name distinguishes it if there are two.
func (o *Opened) watchMemory(memory *memstore.Store, name string, provider metric.MeterProvider) error {
	if provider == nil {
		return nil
	}
	m := &memoryMetrics{
		memory: memory, store: attribute.String("store", name),
		seen: map[memoryLimit]memoryCounts{}, labels: map[memoryLabel]*memoryCounts{},
	}
	metrics := newInstruments(provider)
	m.used = metrics.gauge("slidegate.memory.used", "By", "Memory that a store in this process uses for keys.")
	m.bound = metrics.gauge("slidegate.memory.bound", "By", "Maximum memory of a store in this process.")
	m.held = metrics.gauge("slidegate.memory.keys.held", "{key}", "Keys in memory, including expired keys whose space has not been reused.")
	m.forgotten = metrics.gauge("slidegate.memory.keys.forgotten", "{key}", "Evicted keys for which an upper bound is remembered.")
	m.evictions = metrics.counter("slidegate.memory.evictions", "{key}", "Live keys that were evicted to make room for others.")
	m.recalled = metrics.counter("slidegate.memory.recalled", "{decision}", "Decisions about keys that had been evicted, or look like one that had.")
	m.refused = metrics.counter("slidegate.memory.recalled.refused", "{decision}", "Decisions about such keys that were refusals.")
	return o.watch(metrics, m.observe)
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
		labels := metric.WithAttributeSet(attribute.NewSet(
			m.store, attribute.String("policy", label.policy), attribute.String("limit", label.limit)))
		to.ObserveInt64(m.held, counts.held, labels)
		to.ObserveInt64(m.forgotten, counts.forgotten, labels)
		to.ObserveInt64(m.evictions, counts.evictions, labels)
		to.ObserveInt64(m.recalled, counts.recalled, labels)
		to.ObserveInt64(m.refused, counts.refused, labels)
	}
	return nil
}

// add adds what the limits have counted since the last reading.
func (m *memoryMetrics) add(limits []memstore.LimitStats) {
	for _, counts := range m.labels {
		counts.held, counts.forgotten = 0, 0
	}
	now := make(map[memoryLimit]memoryCounts, len(limits))
	for _, l := range limits {
		id := memoryLimit{l.Namespace, l.Name, l.Shape}
		before := m.seen[id]
		if l.Evictions < before.evictions || l.Recalled < before.recalled || l.Refused < before.refused {
			before = memoryCounts{} // the limit was dropped and came back
		}
		now[id] = memoryCounts{evictions: l.Evictions, recalled: l.Recalled, refused: l.Refused}
		to := m.countsOf(memoryLabel{policyName(l.Namespace), cmp.Or(l.Name, l.Shape)})
		to.held += l.Keys
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
