package gate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/policy"
)

// scope is the name under which all metrics are reported.
const scope = "github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"

// What is counted per policy. The most common come first, so that they share a cache line.
const (
	admitted = iota
	refused
	shadowRefused
	failed
	allowListed
	unlimited
	denyListed
	shadowDenyListed
	blocked // a ruling blocks the key
	shadowBlocked
	candidateAgreedAdmit  // the candidate admits what the limits admit
	candidateAgreedRefuse // the candidate denies what the limits deny
	candidateStricter     // the candidate denies what the limits admit
	candidateLooser       // the candidate admits what the limits deny
	counts
)

// outcomes names each count: the outcome and what decided it; for a candidate, its outcome and the outcome of the
// limits.
var outcomes = [counts][2]string{
	admitted:              {"admitted", ByLimits.String()},
	refused:               {"refused", ByLimits.String()},
	shadowRefused:         {"shadow_refused", ByLimits.String()},
	failed:                {"error", ByLimits.String()},
	allowListed:           {"admitted", ByAllowList.String()},
	unlimited:             {"admitted", ByUnlimited.String()},
	denyListed:            {"refused", ByDenyList.String()},
	shadowDenyListed:      {"shadow_refused", ByDenyList.String()},
	blocked:               {"refused", ByRuling.String()},
	shadowBlocked:         {"shadow_refused", ByRuling.String()},
	candidateAgreedAdmit:  {"admitted", "admitted"},
	candidateAgreedRefuse: {"refused", "refused"},
	candidateStricter:     {"refused", "admitted"},
	candidateLooser:       {"admitted", "refused"},
}

// cells are the counts of one lane, in whole cache lines.
type cells [16]atomic.Int64

const _ = uint(len(cells{}) - counts) // there is a cell for each count

// tally counts for one policy. Callers that count for different keys mostly use different lanes: a cache line that
// several processors write to has to travel between them. It is safe for concurrent use.
type tally struct {
	name         string
	onRefused    func(policy, key string) // may be nil
	lanes        []cells
	attributes   [counts]metric.MeasurementOption
	hasCandidate atomic.Bool // the policy has, or had, a candidate
}

func newTally(name string, onRefused func(policy, key string)) *tally {
	lanes := 1
	for lanes < 4*runtime.GOMAXPROCS(0) && lanes < 64 {
		lanes *= 2
	}
	t := &tally{name: name, onRefused: onRefused, lanes: make([]cells, lanes)}
	policyName := attribute.String("policy", name)
	for count, words := range outcomes {
		second := attribute.String("by", words[1])
		if count >= candidateAgreedAdmit {
			second = attribute.String("live_outcome", words[1])
		}
		t.attributes[count] = metric.WithAttributeSet(attribute.NewSet(
			policyName, attribute.String("outcome", words[0]), second))
	}
	return t
}

// add counts once. The lane depends on the end of the key, where keys differ most.
func (t *tally) add(key string, count int) {
	var h uint32
	for i := max(0, len(key)-4); i < len(key); i++ {
		h = h*31 + uint32(key[i])
	}
	t.lanes[h&uint32(len(t.lanes)-1)][count].Add(1)
	if t.onRefused != nil && isRefusal[count] {
		t.onRefused(t.name, key)
	}
}

// count counts the outcome of a part of a request.
func (t *tally) count(key string, o policy.Outcome) {
	count := admitted
	switch {
	case o == policy.Outcome{}:
	case o.Candidate && o.Refused == o.LiveRefused:
		count = candidateAgreedAdmit
		if o.Refused {
			count = candidateAgreedRefuse
		}
	case o.Candidate && o.Refused:
		count = candidateStricter
	case o.Candidate:
		count = candidateLooser
	case o.Failed:
		count = failed
	case o.By == ByAllowList:
		count = allowListed
	case o.By == ByUnlimited:
		count = unlimited
	case o.By == ByDenyList && o.Shadow:
		count = shadowDenyListed
	case o.By == ByDenyList:
		count = denyListed
	case o.By == ByRuling && o.Shadow:
		count = shadowBlocked
	case o.By == ByRuling:
		count = blocked
	case o.Refused && o.Shadow:
		count = shadowRefused
	case o.Refused:
		count = refused
	}
	t.add(key, count)
}

// isRefusal reports which counts are denials by the limits, a list or a ruling, including those of policies in shadow
// mode.
var isRefusal = [counts]bool{
	refused: true, shadowRefused: true, denyListed: true, shadowDenyListed: true, blocked: true, shadowBlocked: true,
}

func (t *tally) sum(count int) (sum int64) {
	for i := range t.lanes {
		sum += t.lanes[i][count].Load()
	}
	return sum
}

// maxTallies bounds the policy names that are counted separately, over all reloads; others are counted together as
// "other".
const maxTallies = 1000

// metrics holds all counts of a Gate. A policy removed by a reload keeps its counts: counters must not go down.
type metrics struct {
	decisions, candidates metric.Int64ObservableCounter
	policies              metric.Int64ObservableGauge
	unmatched             metric.Int64Counter
	unmatchedBy           map[string]metric.MeasurementOption // the attributes of a listener
	registration          metric.Registration
	current               func() int
	onRefused             func(policy, key string)

	mu      sync.Mutex
	tallies map[string]*tally
}

func newMetrics(provider metric.MeterProvider, current func() int) (*metrics, error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter := provider.Meter(scope)
	m := &metrics{tallies: map[string]*tally{}, current: current}
	var errs [4]error
	m.decisions, errs[0] = meter.Int64ObservableCounter("slidegate.policy.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("Requests decided by a policy, by outcome and by what decided."))
	m.candidates, errs[1] = meter.Int64ObservableCounter("slidegate.policy.candidate.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("What a policy's candidate limits would have decided, and what its live limits decided."))
	m.policies, errs[2] = meter.Int64ObservableGauge("slidegate.policies", metric.WithUnit("{policy}"),
		metric.WithDescription("Policies in force."))
	m.unmatched, errs[3] = meter.Int64Counter("slidegate.unmatched", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that were admitted because no policy or rule matches them."))
	m.unmatchedBy = map[string]metric.MeasurementOption{}
	for _, listener := range []string{listenerNames[HTTP], listenerNames[Proxy], "grpc"} {
		m.unmatchedBy[listener] = metric.WithAttributeSet(attribute.NewSet(attribute.String("listener", listener)))
	}
	err := errors.Join(errs[:]...)
	if err == nil {
		m.registration, err = meter.RegisterCallback(m.observe, m.decisions, m.candidates, m.policies)
	}
	if err != nil {
		return nil, fmt.Errorf("gate: MeterProvider: %w", err)
	}
	return m, nil
}

// tallyOf returns the counts of the policy of that name. From then on they are reported, as 0 at first: the first event
// is then an increase, not a new series, which functions such as rate miss.
func (m *metrics) tallyOf(name string, hasCandidate bool) *tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tallies) >= maxTallies && m.tallies[name] == nil {
		name = "other"
	}
	if m.tallies[name] == nil {
		m.tallies[name] = newTally(name, m.onRefused)
	}
	if hasCandidate {
		m.tallies[name].hasCandidate.Store(true)
	}
	return m.tallies[name]
}

func (m *metrics) observe(_ context.Context, to metric.Observer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tallies {
		for count := range counts {
			switch {
			case count < candidateAgreedAdmit:
				to.ObserveInt64(m.decisions, t.sum(count), t.attributes[count])
			case t.hasCandidate.Load():
				to.ObserveInt64(m.candidates, t.sum(count), t.attributes[count])
			}
		}
	}
	to.ObserveInt64(m.policies, int64(m.current()))
	return nil
}
