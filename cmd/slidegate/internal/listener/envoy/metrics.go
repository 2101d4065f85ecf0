package envoy

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Values of the attribute rule other than the name or path of a rule.
const (
	otherRules   = "others"   // there are more rules than maxTallies
	overrideRule = "override" // the limit came with the descriptor
)

// maxTallies bounds the rules with separate series. A meter has 2000 series, of which a rule takes one per verdict, and
// withdrawn rules keep their series.
const maxTallies = 600

// verdict is the outcome of a descriptor.
type verdict uint8

const (
	verdictOK verdict = iota
	verdictOver
	verdictShadow // over, and reported as OK
	verdicts
)

var verdictNames = [verdicts]string{"ok", "over_limit", "shadow"}

// metrics counts by domain and rule, both of which come from files: nothing from a request is ever an attribute.
type metrics struct {
	decisions metric.Int64Counter
	errors    metric.Int64Counter
	invalid   []metric.AddOption
	store     []metric.AddOption
	windows   []metric.AddOption

	mu      sync.Mutex
	tallies map[pair]*tally
}

// tally counts the outcomes of the descriptors of one rule.
type tally struct {
	counter metric.Int64Counter
	options [verdicts][]metric.AddOption
}

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter := provider.Meter("github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy")
	m := &metrics{tallies: map[pair]*tally{}}
	var err error
	if m.decisions, err = meter.Int64Counter("slidegate.envoy.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("Descriptors that matched a rule, by outcome.")); err != nil {
		return nil, fmt.Errorf("envoy: MeterProvider: %w", err)
	}
	if m.errors, err = meter.Int64Counter("slidegate.envoy.errors", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that failed, and descriptors that were refused because of their windows.")); err != nil {
		return nil, fmt.Errorf("envoy: MeterProvider: %w", err)
	}
	of := func(kind string) []metric.AddOption {
		return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("error.type", kind)))}
	}
	m.invalid, m.store, m.windows = of("invalid"), of("store"), of("windows")
	for _, kind := range [][]metric.AddOption{m.invalid, m.store, m.windows} {
		m.errors.Add(context.Background(), 0, kind...)
	}
	return m, nil
}

// tallyOf returns the tally of a rule, the same one after a reload.
func (m *metrics) tallyOf(domain, rule string) *tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := pair{domain, rule}
	if t := m.tallies[key]; t != nil {
		return t
	}
	if len(m.tallies) >= maxTallies && rule != otherRules {
		domain, rule = "", otherRules
		key = pair{domain, rule}
		if t := m.tallies[key]; t != nil {
			return t
		}
	}
	t := &tally{counter: m.decisions}
	for v := range verdicts {
		t.options[v] = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(
			attribute.String("domain", domain),
			attribute.String("rule", rule),
			attribute.String("verdict", verdictNames[v]),
		))}
		m.decisions.Add(context.Background(), 0, t.options[v]...) // so that the first event is an increase, not a new series
	}
	m.tallies[key] = t
	return t
}

func (t *tally) add(ctx context.Context, v verdict) { t.counter.Add(ctx, 1, t.options[v]...) }
