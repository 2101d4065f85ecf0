package observe

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// The sources of an answer, in the order of sourceNames. Each has two counts: admissions and denials.
const (
	fromStore = 2 * iota
	fromCache
	fromLease
	fromFallbackOpen
	fromFallbackClosed
	fromFallbackLocal
	fromFallbackOptimistic
	sources
)

var sourceNames = [sources / 2]string{"store", "cached", "leased", "fallback_open", "fallback_closed", "fallback_local", "fallback_optimistic"}

func sourceOf(flags rule.Flags) int {
	switch { // a fallback may answer from its own cache: that the store did not answer matters more
	case flags == 0:
		return fromStore
	case flags.FallbackOpen():
		return fromFallbackOpen
	case flags.FallbackClosed():
		return fromFallbackClosed
	case flags.FallbackLocal():
		return fromFallbackLocal
	case flags.FallbackOptimistic():
		return fromFallbackOptimistic
	case flags.Leased(): // also for a denial that it repeats
		return fromLease
	case flags.Cached():
		return fromCache
	}
	return fromStore
}

// What is counted for a limit. The most common counts come first, so that they share a cache line.
const (
	granted    = 0
	allowedBy  = 1 // plus the source
	refusedBy  = 2 // plus the source
	failed     = 1 + sources
	givenBack  = failed + 1
	inherited  = failed + 2
	clockMoved = failed + 3
	counts     = failed + 4
)

// Events that are too rare for a counter on each lane.
const (
	renewed = counts + iota
	lost
	repeated
	unsettled
	allCounts
)

// cells are the counts of one lane, in whole cache lines.
type cells [24]atomic.Int64

const _ = uint(len(cells{}) - counts) // there is a cell for each count

// name identifies a series.
type name struct{ policy, limit string }

// series holds the counts of the limits with one name.
type series struct {
	name
	lanes []cells
	rare  [allCounts - counts]atomic.Int64

	announced atomic.Uint32 // has a bit for each count that is reported even if it is 0

	attributes [allCounts]metric.MeasurementOption // created when they are first reported; guarded by the report's mutex
}

func (s *series) sum(count int) (sum int64) {
	if count >= counts {
		return s.rare[count-counts].Load()
	}
	for i := range s.lanes {
		sum += s.lanes[i][count].Load()
	}
	return sum
}

// tally counts. It is safe for concurrent use.
type tally struct {
	lanes     int
	maxNames  int
	policy    func(*store.Limit) (string, bool)
	known     [1024]atomic.Pointer[known] // by the limit's ID; a miss is looked up by name
	errors    [kinds]atomic.Int64
	announced atomic.Bool // there are announced series

	mu      sync.Mutex
	byName  map[name]*series
	all     []*series // in order of creation; only ever appended to
	other   *series   // for names beyond maxNames
	ignored *series   // for ignored limits; not in all
}

type known struct {
	id     uint64
	series *series
}

// otherLabel is the label of limits beyond maxNames.
const otherLabel = "other"

// maxLanes bounds the memory of a series, to 12 KB.
const maxLanes = 64

// newTally makes more lanes than there are processors, because two processors may get the same lane.
func newTally(maxNames int, policy func(*store.Limit) (string, bool)) *tally {
	lanes := 1
	for lanes < 4*runtime.GOMAXPROCS(0) && lanes < maxLanes {
		lanes *= 2
	}
	t := &tally{lanes: lanes, maxNames: maxNames, policy: policy, byName: map[name]*series{}}
	t.ignored = t.newSeries(name{})
	return t
}

func (t *tally) seriesOf(limit *store.Limit) *series {
	k := t.known[limit.ID()%uint64(len(t.known))].Load()
	if k == nil || k.id != limit.ID() {
		return t.findSeries(limit)
	}
	return k.series
}

// findSeries finds the series of a limit by its name, and caches it. Limits of the same name are counted together.
func (t *tally) findSeries(limit *store.Limit) *series {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.findLocked(limit, false)
	t.known[limit.ID()%uint64(len(t.known))].Store(&known{id: limit.ID(), series: s})
	return s
}

// findLocked returns the series of a limit. Announced limits get their own series even beyond maxNames.
func (t *tally) findLocked(limit *store.Limit, announced bool) *series {
	policy, ok := t.policy(limit)
	if !ok {
		return t.ignored
	}
	id := name{validText(policy), validText(limit.Label())}
	if s := t.byName[id]; s != nil {
		return s
	}
	if announced || len(t.byName) < t.maxNames {
		t.byName[id] = t.addLocked(id)
		return t.byName[id]
	}
	if t.other == nil {
		t.other = t.byName[name{limit: otherLabel}]
	}
	if t.other == nil {
		t.other = t.addLocked(name{limit: otherLabel})
	}
	return t.other
}

// validText returns text as valid UTF-8: invalid text would make exporters fail for all metrics.
func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// announce reports counts of limits even if they are 0: units, and decisions by the given sources.
func (t *tally) announce(limits []*store.Limit, from []rule.Flags) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.announced.Store(true)
	counts := uint32(1<<granted | 1<<givenBack | 1<<failed)
	for _, flags := range from {
		counts |= decisionBits(flags)
	}
	for _, limit := range limits {
		s := t.findLocked(limit, true)
		s.announced.Or(counts)
		if limit.Rule().Lease {
			s.announced.Or(decisionBits(rule.Leased))
		}
		t.known[limit.ID()%uint64(len(t.known))].Store(&known{id: limit.ID(), series: s})
	}
}

// decisionBits returns the bits of the decisions of a source.
func decisionBits(flags rule.Flags) uint32 {
	return 1<<(allowedBy+sourceOf(flags)) | 1<<(refusedBy+sourceOf(flags))
}

func (t *tally) addLocked(id name) *series {
	s := t.newSeries(id)
	t.all = append(t.all, s)
	return s
}

func (t *tally) newSeries(id name) *series {
	return &series{name: id, lanes: make([]cells, t.lanes)}
}

// allSeries returns all series.
func (t *tally) allSeries() []*series {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[:len(t.all):len(t.all)]
}

// countSingle counts a decision made by TakeSingle.
func (t *tally) countSingle(limit *store.Limit, lane int, allowed bool, flags rule.Flags, cost int64, err error) {
	c := &t.seriesOf(limit).lanes[lane]
	switch {
	case err != nil:
		t.errors[kindOf(err)].Add(1)
		c[failed].Add(1)
		return
	case allowed:
		c[allowedBy+sourceOf(flags)].Add(1)
		if charges(flags) {
			c[granted].Add(cost)
		}
	default:
		c[refusedBy+sourceOf(flags)].Add(1)
	}
	if flags != 0 {
		c.flags(flags)
	}
}

// countRequest counts a decided request of a batch.
func (t *tally) countRequest(r *store.Request, lane int) {
	decides := (r.Op == rule.Take || r.Op == rule.TakeUpTo) && len(r.Charges) > 0
	if r.Err != nil {
		t.errors[kindOf(r.Err)].Add(1)
		if decides {
			t.seriesOf(r.Charges[0].Limit).lanes[lane][failed].Add(1)
		}
		return
	}
	if decides {
		index, allowed := rule.DecidingIndex(r.Answers)
		verdict := refusedBy
		if allowed {
			verdict = allowedBy
		}
		t.seriesOf(r.Charges[index].Limit).lanes[lane][verdict+sourceOf(r.Answers[index].Flags)].Add(1)
	}
	if r.Op == rule.Peek {
		return
	}
	again := r.Op == rule.Settle && slices.ContainsFunc(r.Answers, func(a rule.Answer) bool { return a.Flags.Repeated() })
	for i := range r.Charges {
		of, answer := t.seriesOf(r.Charges[i].Limit), &r.Answers[i]
		switch r.Op {
		case rule.Renew:
			of.renewal(r.Charges[i].Limit, answer)
		case rule.Settle:
			of.settlement(lane, answer, again)
		case rule.GiveBack:
			of.units(lane, givenBack, answer.Granted, answer.Flags)
		default:
			of.units(lane, granted, answer.Granted, answer.Flags)
		}
		if answer.Flags != 0 {
			of.lanes[lane].flags(answer.Flags)
		}
	}
}

// units counts units that were charged or given back.
func (s *series) units(lane, count int, units int64, flags rule.Flags) {
	if units != 0 && charges(flags) {
		s.lanes[lane][count].Add(units)
	}
}

// settlement counts what a settlement gave back or charged. A repeated settlement changes nothing, and returns the
// earlier answer again: also for slots, whose answers do not have the flag.
func (s *series) settlement(lane int, answer *rule.Answer, again bool) {
	switch {
	case answer.Flags.Repeated():
		s.rare[repeated-counts].Add(1)
	case again:
	case answer.Flags.Unsettled():
		s.rare[unsettled-counts].Add(1)
	case answer.Granted > 0:
		s.units(lane, givenBack, answer.Granted, answer.Flags)
	default:
		s.units(lane, granted, -answer.Granted, answer.Flags)
	}
}

// renewal counts a slot that was renewed, or was no longer held. Other limits have no slots.
func (s *series) renewal(limit *store.Limit, answer *rule.Answer) {
	switch {
	case limit.Rule().Algorithm != rule.InFlight || !charges(answer.Flags):
	case answer.Allowed:
		s.rare[renewed-counts].Add(1)
	default:
		s.rare[lost-counts].Add(1)
	}
}

// charges reports whether an answer with these flags moved units of a limit: where a failure policy admits or denies
// everything, nothing is charged or given back, whatever the answer.
func charges(flags rule.Flags) bool {
	return flags == 0 || !flags.FallbackOpen() && !flags.FallbackClosed()
}

func (c *cells) flags(flags rule.Flags) {
	if flags.Inherited() {
		c[inherited].Add(1)
	}
	if flags.ClockMoved() {
		c[clockMoved].Add(1)
	}
}
