package gate

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument"
	"github.com/slidegate/slidegate/internal/lanes"
	"github.com/slidegate/slidegate/store"
)

// bounds are the upper bounds of the buckets, from the time of a decision in memory to the time when every caller has
// given up.
var bounds = [...]time.Duration{
	10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond,
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond,
}

// Latency has a histogram of how long decisions took for each listener. They are cheap enough to record every decision:
// recording takes about 20 ns and allocates nothing, while the synchronous histograms of OpenTelemetry take ten times as
// long. All exporters receive them like any other metric. It is safe for concurrent use. The zero value is not usable; call
// NewLatency.
type Latency struct {
	began time.Time

	mu sync.Mutex
	of [listeners]*Histogram
}

// NewLatency returns a Latency without histograms.
func NewLatency() *Latency { return &Latency{began: time.Now()} }

// Of returns the histogram of a listener, always the same one. It is reported from then on.
func (l *Latency) Of(listener Listener) *Histogram {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[listener] == nil {
		l.of[listener] = &Histogram{
			counts:     lanes.New(len(bounds) + 2),
			attributes: attribute.NewSet(attribute.String("listener", listenerNames[listener])),
		}
	}
	return l.of[listener]
}

// Histogram counts durations. It is safe for concurrent use. The zero value is not usable; call Latency.Of.
type Histogram struct {
	counts     lanes.Counters // of each bucket, and after them the sum in nanoseconds
	attributes attribute.Set
}

const nanos = len(bounds) + 1 // the index of the sum

// Record counts a duration.
func (h *Histogram) Record(took time.Duration) {
	bucket := 0
	for bucket < len(bounds) && took > bounds[bucket] {
		bucket++
	}
	lane := h.counts.Lane(rand.Uint32())
	lane[bucket].Add(1)
	lane[nanos].Add(int64(took))
}

// Produce returns the histograms, for the readers of OpenTelemetry's SDK.
func (l *Latency) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limits := make([]float64, len(bounds))
	for i, bound := range bounds {
		limits[i] = bound.Seconds()
	}
	data := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
	now := time.Now()
	for _, h := range l.of {
		if h == nil {
			continue
		}
		p := metricdata.HistogramDataPoint[float64]{
			Attributes: h.attributes, StartTime: l.began, Time: now, Bounds: limits, BucketCounts: make([]uint64, len(bounds)+1),
			Sum: time.Duration(h.counts.Sum(nanos)).Seconds(),
		}
		for bucket := range p.BucketCounts {
			p.BucketCounts[bucket] = uint64(h.counts.Sum(bucket))
			p.Count += p.BucketCounts[bucket]
		}
		data.DataPoints = append(data.DataPoints, p)
	}
	return []metricdata.ScopeMetrics{{
		Scope: instrumentation.Scope{Name: instrument.Scope},
		Metrics: []metricdata.Metrics{{
			Name: "slidegate.listener.decision.duration", Unit: "s", Data: data,
			Description: "How long decisions took, by listener, without reading the request and writing the response. With a store in memory, only a sample is timed.",
		}},
	}}, nil
}

// inProcessInterval is the sample interval for a store in this process: one in this many decisions is timed, since reading
// the clock twice takes about as long as such a decision.
const inProcessInterval = 64

// sampleInterval returns the sample interval for a store: one in that many decisions is timed.
func sampleInterval(st store.Store) uint32 {
	if st.Traits().RoundTrips > 0 {
		return 1
	}
	return inProcessInterval
}

// begin returns when a decision began, or the zero time if it is not timed.
func (g *Gate) begin() time.Time {
	if g.opts.Latency == nil || g.sampleInterval > 1 && rand.Uint32N(g.sampleInterval) != 0 {
		return time.Time{}
	}
	return time.Now()
}

// recordLatency records the latency of a decision, without the time in line.
func (g *Gate) recordLatency(listener Listener, began time.Time, waited time.Duration) {
	if !began.IsZero() && g.latency[listener] != nil {
		g.latency[listener].Record(max(0, time.Since(began)-waited))
	}
}
