package gate

import (
	"strconv"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/lanes"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// Listener identifies a listener in metrics.
type Listener uint8

// The listeners.
const (
	HTTP Listener = iota
	RESP
	Proxy // requests run in it
	GRPC  // Envoy's rate limit service
	listeners
)

var listenerNames = [listeners]string{"http", "resp", "proxy", "grpc"}

// The outcomes of a policy's part in a request.
const (
	admitted = iota
	refused
	shadowRefused
	failed
	outcomes
)

var outcomeNames = [outcomes]string{"admitted", "refused", "shadow_refused", "error"}

// A tally has a count for each outcome and what decided, the limits first, so that the most common share a cache line.
const counts = (int(policy.ByRuling) + 1) * outcomes

// happens reports whether an outcome can be decided by this.
func happens(by policy.By, outcome int) bool {
	switch by {
	case policy.ByLimits:
		return true
	case policy.ByAllowList, policy.ByUnlimited:
		return outcome == admitted
	}
	return outcome == refused || outcome == shadowRefused
}

// tally counts for one policy. It is safe for concurrent use.
type tally struct {
	name      string
	onRefused func(Refusal)      // may be nil
	onCrossed func(Crossing)     // may be nil
	seen      *seen.PolicyRecord // may be nil
	counts    lanes.Counters
	held      atomic.Int64 // requests that hold slots or units
	line      engine.Line

	nearMu sync.Mutex
	near   map[int]int64 // crossings of thresholds, by percent
}

// count counts the outcome of a part of a request. The lane depends on the end of the key, where keys differ most.
func (t *tally) count(key string, o engine.Outcome) {
	count := admitted
	switch {
	case o.Failed:
		count = failed
	case o.Refused && o.Shadow:
		count = int(o.By)*outcomes + shadowRefused
	case o.Refused:
		count = int(o.By)*outcomes + refused
	default:
		count = int(o.By) * outcomes
	}
	var h uint32
	for i := max(0, len(key)-4); i < len(key); i++ {
		h = h*31 + uint32(key[i])
	}
	t.counts.Lane(h)[count].Add(1)
	if t.seen != nil {
		t.record(key, &o)
	}
	if t.onRefused != nil && o.Refused && !o.Failed {
		t.onRefused(Refusal{Policy: t.name, Key: key, By: o.By, Shadow: o.Shadow})
	}
}

// record adds the outcome to what was seen.
func (t *tally) record(key string, o *engine.Outcome) {
	by := o.By.String()
	switch {
	case o.Failed:
		by = seen.ByFailure
	case o.Penalized:
		by = seen.ByPenalty
	case o.Never:
		by = seen.ByNever
	}
	t.seen.Add(key, &seen.Event{
		Refused: o.Refused, Shadow: o.Shadow, Fallback: o.Fallback, By: by, Limit: o.Limit, Remaining: o.Remaining,
		Method: o.Method, Route: o.Path, Plan: o.Plan,
	})
}

// crossed counts a crossing of a threshold.
func (t *tally) crossed(key string, limit *store.Limit, percent int) {
	t.addNear(percent, 1)
	if t.onCrossed != nil {
		t.onCrossed(Crossing{Policy: t.name, Key: key, Limit: limit.Label(), Percent: percent})
	}
}

// addNear adds to the crossings of a threshold, which are reported from then on, even if there were none.
func (t *tally) addNear(percent int, crossings int64) {
	t.nearMu.Lock()
	defer t.nearMu.Unlock()
	t.near[percent] += crossings
}

// maxTallies bounds the policy names that are counted separately, over all reloads; others are counted together as
// "other".
const maxTallies = 1000

// metrics holds all counts of a Gate. A policy removed by a reload keeps its counts: counters must not go down.
type metrics struct {
	stop      func() error // stops reporting
	onRefused func(Refusal)
	onCrossed func(Crossing)
	seen      *seen.Record
	unmatched [listeners]struct {
		reported atomic.Bool
		requests atomic.Int64
	}

	mu      sync.Mutex
	tallies map[string]*tally
}

// table lists the metrics of a Gate.
var table = []instrument.Row[*Gate]{
	{Name: "slidegate.policy.decisions", Unit: "{decision}", Help: "Requests decided by a policy, by outcome and by what decided.",
		Each: func(g *Gate, report instrument.Report) {
			g.metrics.each(func(t *tally) {
				for i := range counts {
					if by, outcome := policy.By(i/outcomes), i%outcomes; happens(by, outcome) {
						report(float64(t.counts.Sum(i)), attribute.String("policy", t.name),
							attribute.String("outcome", outcomeNames[outcome]), attribute.String("by", by.String()))
					}
				}
			})
		}},
	{Name: "slidegate.near_limit", Unit: "{crossing}", Help: "How often a key's usage of a limit reached a threshold of notify, by policy and threshold.",
		Each: func(g *Gate, report instrument.Report) {
			g.metrics.each(func(t *tally) {
				t.nearMu.Lock()
				defer t.nearMu.Unlock()
				for percent, crossings := range t.near {
					report(float64(crossings), attribute.String("policy", t.name), attribute.String("threshold", strconv.Itoa(percent)+"%"))
				}
			})
		}},
	{Name: "slidegate.policy.waiting", Unit: "{request}", Kind: instrument.Gauge, Help: "Requests that wait in line now, by policy.",
		Each: func(g *Gate, report instrument.Report) {
			g.metrics.each(func(t *tally) { report(float64(t.line.Waiting.Load()), attribute.String("policy", t.name)) })
		}},
	{Name: "slidegate.policy.waits", Unit: "{request}", Help: "Requests that waited in line, by policy and by whether they were admitted, refused, or gave up.",
		Each: func(g *Gate, report instrument.Report) {
			g.metrics.each(func(t *tally) {
				report(float64(t.line.Admitted.Load()), attribute.String("policy", t.name), attribute.String("outcome", outcomeNames[admitted]))
				report(float64(t.line.Refused.Load()), attribute.String("policy", t.name), attribute.String("outcome", outcomeNames[refused]))
				report(float64(t.line.GaveUp.Load()), attribute.String("policy", t.name), attribute.String("outcome", "gave_up"))
			})
		}},
	{Name: "slidegate.policies", Unit: "{policy}", Kind: instrument.Gauge, Help: "Policies in force.",
		Value: func(g *Gate) int64 { return int64(len(g.Policies())) }},
	{Name: "slidegate.unmatched", Unit: "{request}", Help: "Requests that were admitted because no policy or rule matches them.",
		Each: func(g *Gate, report instrument.Report) {
			for listener, name := range listenerNames {
				if of := &g.metrics.unmatched[listener]; of.reported.Load() {
					report(float64(of.requests.Load()), attribute.String("listener", name))
				}
			}
		}},
}

// report begins to report the metrics, to the global provider if there is no other.
func (g *Gate) report(provider metric.MeterProvider) (err error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	g.metrics.stop, err = instrument.Register(provider, table, func() *Gate { return g })
	return err
}

// tallyOf returns the counts of the policy of that name. From then on they are reported, as 0 at first: the first event
// is then an increase, not a new series, which functions such as rate miss.
func (m *metrics) tallyOf(name string) *tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tallies) >= maxTallies && m.tallies[name] == nil {
		name = "other"
	}
	if m.tallies[name] == nil {
		m.tallies[name] = &tally{name: name, onRefused: m.onRefused, onCrossed: m.onCrossed, counts: lanes.New(counts), near: map[int]int64{}}
		if m.seen != nil {
			m.tallies[name].seen = m.seen.Policy(name)
		}
	}
	return m.tallies[name]
}

func (m *metrics) each(do func(*tally)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tallies {
		do(t)
	}
}

// CountUnmatched counts requests that no policy, or no rule of Envoy's, matches. They are admitted, and a mistake in a pattern
// looks like that. From then on the listener's count is reported, even if it is 0.
func (g *Gate) CountUnmatched(listener Listener, n int64) {
	of := &g.metrics.unmatched[listener]
	of.requests.Add(n)
	of.reported.Store(true)
}
