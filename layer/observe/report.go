package observe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slidegate/slidegate/store"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The kinds of errors, in the order of kindNames.
const (
	timeout = iota
	canceled
	unsupported
	otherKind
	kinds
)

var kindNames = [kinds]string{"timeout", "canceled", "store", "other"}

// kindOf classifies an error, and never uses its text: there are too many, and they come from other packages.
func kindOf(err error) int {
	var timed interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return canceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timed) && timed.Timeout():
		return timeout
	case errors.Is(err, store.ErrUnsupported):
		return unsupported
	}
	return otherKind
}

// scope is the name under which all metrics are reported.
const scope = "github.com/slidegate/slidegate/layer/observe"

// buckets range from the latency of a store in memory to where all callers have given up, in seconds.
var buckets = []float64{
	1e-6, 2.5e-6, 5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6,
	1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3,
	1, 2.5, 5,
}

// counters has the metrics of limits, and the counts that each reports: from the first to the last.
var counters = []struct {
	name, unit, help string
	first, last      int
}{
	{"slidegate.decisions", "{decision}", "Requests for units that were decided, by the deciding limit.", allowedBy, failed},
	{"slidegate.units.granted", "{unit}", "Units charged to a limit.", granted, granted},
	{"slidegate.units.given_back", "{unit}", "Units returned to a limit.", givenBack, givenBack},
	{"slidegate.inherited", "{answer}",
		"Answers for keys that inherited the counts of other keys, because the store was full of live ones.", inherited, inherited},
	{"slidegate.clock_moved", "{answer}", "Answers from counts that were ahead of the clock and moved back.", clockMoved, clockMoved},
	{"slidegate.slots.renewed", "{slot}", "Slots of in-flight limits that were renewed.", renewed, renewed},
	{"slidegate.slots.lost", "{slot}",
		"Slots that could not be renewed, because they had been released or their time to live had passed.", lost, lost},
	{"slidegate.holds.renewed", "{hold}", "Holds of reservations that were renewed.", holdRenewed, holdRenewed},
	{"slidegate.holds.lost", "{hold}",
		"Holds that could not be renewed, because they had been settled or their time had passed.", holdLost, holdLost},
	{"slidegate.calls.repeated", "{call}", "Calls with an ID that had been made or cancelled before and changed nothing.", callRepeated, callRepeated},
	{"slidegate.calls.not_once", "{call}", "Calls with an ID that the store cannot remember.", notOnce, notOnce},
	{"slidegate.settlements.repeated", "{settlement}", "Settlements that had been made before and changed nothing.", repeated, repeated},
	{"slidegate.settlements.unsettled", "{settlement}",
		"Settlements that changed nothing, because the store cannot remember more of them.", unsettled, unsettled},
}

// instruments creates the instruments and registers the report.
func (s *Store) instruments() (err error) {
	meter := s.opts.MeterProvider.Meter(scope)
	r := &report{tally: s.tally, store: attribute.String("store", s.opts.Name)}
	var all []metric.Observable
	counter := func(name, unit, help string) (c metric.Int64ObservableCounter) {
		if err == nil {
			c, err = meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(help))
			all = append(all, c)
		}
		return c
	}
	for _, row := range counters {
		c := counter(row.name, row.unit, row.help)
		for count := row.first; count <= row.last; count++ {
			r.counters[count] = c
		}
	}
	r.errors = counter("slidegate.errors", "{request}", "Requests that the store did not answer.")
	if err == nil {
		s.durations, err = meter.Float64Histogram("slidegate.decision.duration", metric.WithUnit("s"),
			metric.WithDescription("Duration of calls to the store, for a decision or a batch of them."),
			metric.WithExplicitBucketBoundaries(buckets...))
	}
	if err != nil {
		return err
	}
	s.durationsFor[kinds] = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(r.store))}
	for kind, name := range kindNames {
		option := metric.WithAttributeSet(attribute.NewSet(r.store, attribute.String("error.type", name)))
		s.durationsFor[kind], r.errorsOf[kind] = []metric.RecordOption{option}, option
	}
	s.registration, err = meter.RegisterCallback(r.observe, all...)
	return err
}

// record records the duration of a call to the store. Its options are prepared slices, to avoid an allocation per call.
func (s *Store) record(ctx context.Context, took time.Duration, err error) {
	kind := kinds
	if err != nil {
		kind = kindOf(err)
	}
	s.durations.Record(ctx, took.Seconds(), s.durationsFor[kind]...)
}

// report passes on the counts when they are collected.
type report struct {
	tally *tally
	store attribute.KeyValue

	counters [allCounts]metric.Int64ObservableCounter // by what they count
	errors   metric.Int64ObservableCounter
	errorsOf [kinds]metric.MeasurementOption

	mu sync.Mutex // there may be several readers
}

func (r *report) observe(_ context.Context, to metric.Observer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.tally.allSeries() {
		for count := range allCounts {
			sum := s.sum(count)
			if sum == 0 && s.announced.Load()&(1<<count) == 0 {
				continue
			}
			if s.attributes[count] == nil {
				s.attributes[count] = metric.WithAttributeSet(r.attributesOf(s, count))
			}
			to.ObserveInt64(r.counters[count], sum, s.attributes[count])
		}
	}
	for kind := range kinds {
		if sum := r.tally.errors[kind].Load(); sum != 0 || r.tally.announced.Load() {
			to.ObserveInt64(r.errors, sum, r.errorsOf[kind])
		}
	}
	return nil
}

func (r *report) attributesOf(s *series, count int) attribute.Set {
	all := []attribute.KeyValue{r.store, attribute.String("limit", s.limit)}
	if s.policy != "" {
		all = append(all, attribute.String("policy", s.policy))
	}
	outcome, source := "", fromStore
	switch {
	case count >= allowedBy && count < failed:
		outcome, source = "admitted", count-allowedBy
		if source%2 != 0 {
			outcome, source = "refused", count-refusedBy
		}
	case count == failed:
		outcome = "error"
	default:
		return attribute.NewSet(all...)
	}
	return attribute.NewSet(append(all, attribute.String("outcome", outcome), attribute.String("source", sourceNames[source/2]))...)
}
