package open

import (
	"cmp"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/memstore"
)

// breakerTable has the metrics of the failure layer.
var breakerTable = []instrument.Row[failure.Stats]{
	{Name: "slidegate.breaker.open", Kind: instrument.Gauge,
		Help:  "Whether the breaker is open: no charge can be written to the store, which is called only by probes: 1 or 0.",
		Value: func(s failure.Stats) int64 { return instrument.OneIf(s.Down) }},
	{Name: "slidegate.breaker.trips", Unit: "{trip}", Help: "How often the breaker opened.",
		Value: func(s failure.Stats) int64 { return s.Outages }},
	{Name: "slidegate.undone", Unit: "{request}",
		Help:  "Requests that failed because the store did not answer and no failure mode can decide for it, such as settlements.",
		Value: func(s failure.Stats) int64 { return s.Undecided }},
}

// leaseTable has the metrics of the lease layer. Its counts may decrease briefly, while a key is being forgotten, or when a request takes
// back what it spent because another limit refused it.
var leaseTable = []instrument.Row[lease.Stats]{
	{Name: "slidegate.leases.keys", Unit: "{key}", Kind: instrument.Gauge,
		Help:  "Busy keys for which this process holds leases.",
		Value: func(s lease.Stats) int64 { return int64(s.Keys) }},
	{Name: "slidegate.leases.units.out", Unit: "{unit}", Kind: instrument.Gauge,
		Help:  "Leased units that this process has neither spent nor returned.",
		Value: func(s lease.Stats) int64 { return s.Outstanding }},
	{Name: "slidegate.leases.units.taken", Unit: "{unit}", Help: "Units leased.",
		Value: func(s lease.Stats) int64 { return s.Taken }},
	{Name: "slidegate.leases.units.spent", Unit: "{unit}", Help: "Leased units spent on admitted requests.",
		Value: func(s lease.Stats) int64 { return s.Spent }},
	{Name: "slidegate.leases.units.returned", Unit: "{unit}",
		Help:  "Leased units returned to the store because they were not needed in time.",
		Value: func(s lease.Stats) int64 { return s.Returned }},
	{Name: "slidegate.leases.units.wasted", Unit: "{unit}",
		Help:  "Leased units neither spent nor returned: the store did not answer, the key was reset, or they had left their window.",
		Value: func(s lease.Stats) int64 { return s.Wasted }},
	{Name: "slidegate.leases.calls", Unit: "{call}",
		Help:  "Calls to the store that leased or returned units, for many keys at a time.",
		Value: func(s lease.Stats) int64 { return s.Calls }},
	{Name: "slidegate.leases.trips.saved", Unit: "{call}",
		Help:  "Decisions made from leases, without a call to the store, less the calls for leases.",
		Value: func(s lease.Stats) int64 { return int64(s.Decisions) - s.Calls }},
}

// memoryTable has the metrics of a store in memory: how full it is, and by limit, what happened to evicted keys.
var memoryTable = []instrument.Row[*memoryCounts]{
	{Name: "slidegate.memory.used", Unit: "By", Kind: instrument.Gauge,
		Help:  "Memory that a store in this process uses for keys.",
		Value: func(c *memoryCounts) int64 { return c.used }},
	{Name: "slidegate.memory.bound", Unit: "By", Kind: instrument.Gauge,
		Help:  "Maximum memory of a store in this process.",
		Value: func(c *memoryCounts) int64 { return c.bound }},
	{Name: "slidegate.memory.keys.held", Unit: "{key}", Kind: instrument.Gauge,
		Help: "Keys in memory, including expired keys whose space has not been reused.",
		Each: byLimit(func(l *memstore.LimitStats) int64 { return l.Keys })},
	{Name: "slidegate.memory.keys.forgotten", Unit: "{key}", Kind: instrument.Gauge,
		Help: "Evicted keys for which an upper bound is remembered.",
		Each: byLimit(func(l *memstore.LimitStats) int64 { return l.Forgotten })},
	{Name: "slidegate.memory.evictions", Unit: "{key}",
		Help: "Live keys that were evicted to make room for others.",
		Each: byLimit(func(l *memstore.LimitStats) int64 { return l.Evictions })},
	{Name: "slidegate.memory.recalled", Unit: "{decision}",
		Help: "Decisions about keys that had been evicted, or look like one that had.",
		Each: byLimit(func(l *memstore.LimitStats) int64 { return l.Recalled })},
	{Name: "slidegate.memory.recalled.refused", Unit: "{decision}",
		Help: "Decisions about such keys that were refusals.",
		Each: byLimit(func(l *memstore.LimitStats) int64 { return l.Refused })},
}

// byLimit reports a count of each limit.
func byLimit(count func(*memstore.LimitStats) int64) func(*memoryCounts, instrument.Report) {
	return func(c *memoryCounts, report instrument.Report) {
		for label, counts := range c.labels {
			report(float64(count(counts)), attribute.String("policy", label.policy), attribute.String("limit", label.limit))
		}
	}
}

// MetricNames returns the names of the metrics of opened stores, without those of package observe.
func MetricNames() []string {
	return slices.Concat(instrument.Names(breakerTable), instrument.Names(leaseTable), instrument.Names(memoryTable))
}

// report reports on what the layers do, until they are closed. The name is that of the store.
func (o *Opened) report(name string, provider metric.MeterProvider) error {
	if o.Memory != nil {
		return o.reportMemory(o.Memory.Stats, "memory", provider)
	}
	store := attribute.String("store", name)
	breaker, first := instrument.Register(provider, breakerTable, func() failure.Stats { return o.layers.Stats().Failure }, store)
	leases, second := instrument.Register(provider, leaseTable, func() lease.Stats { return o.layers.Stats().Lease }, store)
	if err := errors.Join(first, second); err != nil {
		return err
	}
	o.close = append(o.close, breaker, leases)
	return o.reportMemory(func() memstore.Stats { return o.layers.Stats().Local }, "local", provider)
}

func (o *Opened) reportMemory(stats func() memstore.Stats, name string, provider metric.MeterProvider) error {
	counts := &memoryCounts{seen: map[memoryLimit]memstore.LimitStats{}, labels: map[memoryLabel]*memstore.LimitStats{}}
	unregister, err := instrument.Register(provider, memoryTable, func() *memoryCounts {
		counts.add(stats())
		return counts
	}, attribute.String("store", name))
	if err != nil {
		return err
	}
	o.close = append(o.close, unregister)
	return nil
}

// memoryCounts are the counts of a store in memory. They never decrease, even when the store drops unused limits together with their
// counts.
type memoryCounts struct {
	used, bound int64                               // bytes
	seen        map[memoryLimit]memstore.LimitStats // the last reading of each limit
	labels      map[memoryLabel]*memstore.LimitStats
}

// memoryLimit identifies a limit in the store.
type memoryLimit struct{ namespace, name, shape string }

// memoryLabel identifies a limit in metrics: by its name, or by its shape if it has none.
type memoryLabel struct{ policy, limit string }

// maxMemoryLabels is the maximum number of labels; further limits are counted together as "other".
const maxMemoryLabels = 200

// add adds what the limits have counted since the last reading.
func (c *memoryCounts) add(stats memstore.Stats) {
	c.used, c.bound = stats.Bytes, stats.MaxBytes
	for _, counts := range c.labels {
		counts.Keys, counts.Forgotten = 0, 0
	}
	now := make(map[memoryLimit]memstore.LimitStats, len(stats.Limits))
	for _, l := range stats.Limits {
		id := memoryLimit{l.Namespace, l.Name, l.Shape}
		before := c.seen[id]
		if l.Evictions < before.Evictions || l.Recalled < before.Recalled || l.Refused < before.Refused {
			before = memstore.LimitStats{} // the limit was dropped and came back
		}
		now[id] = l
		to := c.countsOf(memoryLabel{policyName(l.Namespace), cmp.Or(l.Name, l.Shape)})
		to.Keys += l.Keys
		to.Forgotten += l.Forgotten
		to.Evictions += l.Evictions - before.Evictions
		to.Recalled += l.Recalled - before.Recalled
		to.Refused += l.Refused - before.Refused
	}
	c.seen = now
}

func (c *memoryCounts) countsOf(label memoryLabel) *memstore.LimitStats {
	if c.labels[label] == nil && len(c.labels) >= maxMemoryLabels {
		label = memoryLabel{"other", "other"}
	}
	if c.labels[label] == nil {
		c.labels[label] = &memstore.LimitStats{}
	}
	return c.labels[label]
}
