package envoy

import (
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument"
	"github.com/slidegate/slidegate/internal/lanes"
)

// Values of the attribute rule other than the name or path of a rule.
const (
	otherRules   = "others"   // there are more rules than maxTallies
	overrideRule = "override" // the limit came with the descriptor
)

// maxTallies bounds the rules with separate series. A meter has 2000 series, of which a rule takes one per outcome, and
// withdrawn rules keep their series.
const maxTallies = 600

// The outcomes of a descriptor.
const (
	outcomeOK = iota
	outcomeOver
	outcomeShadow // over, and reported as OK
	outcomes
)

var outcomeNames = [outcomes]string{"ok", "over_limit", "shadow"}

// The kinds of errors.
const (
	errorInvalid = iota
	errorStore
	errorWindows
	errorKinds
)

var errorNames = [errorKinds]string{"invalid", "store", "windows"}

// metrics counts by domain and rule, both of which come from files: nothing from a request is ever an attribute.
type metrics struct {
	errors  [errorKinds]atomic.Int64
	mu      sync.Mutex
	tallies map[pair]*tally
}

// tally counts the outcomes of the descriptors of one rule.
type tally struct{ counts lanes.Counters }

// add counts an outcome in the lane of a request.
func (t *tally) add(w *work, outcome int) { t.counts.Lane(w.lane)[outcome].Add(1) }

// table lists the metrics. All series are there from the start, so that the first event is an increase, not a new series.
var table = []instrument.Row[*metrics]{
	{Name: "slidegate.envoy.decisions", Unit: "{decision}", Help: "Descriptors that matched a rule, by outcome.",
		Each: func(m *metrics, report instrument.Report) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for of, t := range m.tallies {
				for outcome, name := range outcomeNames {
					report(float64(t.counts.Sum(outcome)), attribute.String("domain", of.key), attribute.String("rule", of.value), attribute.String("outcome", name))
				}
			}
		}},
	{Name: "slidegate.envoy.errors", Unit: "{request}", Help: "Requests that failed, and descriptors that were refused because of their windows.",
		Each: func(m *metrics, report instrument.Report) {
			for kind, name := range errorNames {
				report(float64(m.errors[kind].Load()), attribute.String("error.type", name))
			}
		}},
}

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	m := &metrics{tallies: map[pair]*tally{}}
	_, err := instrument.Register(provider, table, func() *metrics { return m })
	return m, err
}

// tallyOf returns the tally of a rule, the same one after a reload.
func (m *metrics) tallyOf(domain, rule string) *tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := pair{domain, rule}
	if len(m.tallies) >= maxTallies && m.tallies[key] == nil {
		key = pair{"", otherRules}
	}
	if m.tallies[key] == nil {
		m.tallies[key] = &tally{lanes.New(int(outcomes))}
	}
	return m.tallies[key]
}
