package observe

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/lanes"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// The sources of an answer, in the order of sourceNames. Each has two counts: admissions and refusals.
const (
	fromStore = 2 * iota
	fromCache
	fromLease
	fromFallbackOpen
	fromFallbackClosed
	fromFallbackLocal
	sources
)

var sourceNames = [sources / 2]string{"store", "cached", "leased", "fallback_open", "fallback_closed", "fallback_local"}

func sourceOf(flags rule.Flags) int {
	switch { // a fallback may answer from its own cache: that the store did not answer matters more
	case flags == 0:
		return fromStore
	case flags&rule.FallbackOpen != 0:
		return fromFallbackOpen
	case flags&rule.FallbackClosed != 0:
		return fromFallbackClosed
	case flags&rule.FallbackLocal != 0:
		return fromFallbackLocal
	case flags&rule.Leased != 0: // also for a refusal that it repeats
		return fromLease
	case flags&rule.Cached != 0:
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
	holdRenewed
	holdLost
	callRepeated
	notOnce
	allCounts
)

// name identifies a series.
type name struct{ policy, limit string }

// series holds the counts of the limits with one name.
type series struct {
	name
	counts lanes.Counters
	rare   [allCounts - counts]atomic.Int64

	announced atomic.Uint32 // has a bit for each count that is reported even if it is 0

	attributes [allCounts]metric.MeasurementOption // created when they are first reported; guarded by the report's mutex
}

func (s *series) sum(count int) int64 {
	if count >= counts {
		return s.rare[count-counts].Load()
	}
	return s.counts.Sum(count)
}

// tally counts. It is safe for concurrent use.
type tally struct {
	maxNames  int
	policy    func(*store.Limit) string
	known     [1024]atomic.Pointer[known] // by the limit's ID; a miss is looked up by name
	errors    [kinds]atomic.Int64
	announced atomic.Bool // there are announced series
	cached    bool        // there is a refusal cache below
	fails     bool        // there is a failure layer below

	mu     sync.Mutex
	byName map[name]*series
	all    []*series // in order of creation; only ever appended to
	other  *series   // for names beyond maxNames
}

type known struct {
	id     uint64
	series *series
}

// otherLabel is the label of limits beyond maxNames.
const otherLabel = "other"

func newTally(maxNames int, policy func(*store.Limit) string) *tally {
	return &tally{maxNames: maxNames, policy: policy, byName: map[name]*series{}}
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
	id := name{validText(t.policy(limit)), validText(limit.Label())}
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

// fallbackOf has the flag of each failure mode. The default mode is local.
var fallbackOf = [store.Modes]rule.Flags{
	rule.FallbackLocal, store.FailOpen: rule.FallbackOpen, store.FailLocal: rule.FallbackLocal, store.FailClosed: rule.FallbackClosed,
}

// announce reports counts of limits even if they are 0.
func (t *tally) announce(limits []*store.Limit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.announced.Store(true)
	for _, limit := range limits {
		s := t.findLocked(limit, true)
		s.announced.Or(t.expected(limit))
		t.known[limit.ID()%uint64(len(t.known))].Store(&known{id: limit.ID(), series: s})
	}
}

// expected returns the bits of the counts that are usual for a limit: units, and decisions by the store and the layers.
func (t *tally) expected(limit *store.Limit) uint32 {
	counts := 1<<granted | 1<<givenBack | 1<<failed | decisionBits(0)
	if t.cached {
		counts |= decisionBits(rule.Cached)
	}
	if limit.Rule().Lease {
		counts |= decisionBits(rule.Leased)
	}
	if t.fails {
		// In every mode this process decides requests that the store has refused before, and in some those that are only late.
		counts |= decisionBits(fallbackOf[limit.Mode()]) | decisionBits(rule.FallbackLocal)
	}
	return counts
}

// decisionBits returns the bits of the decisions of a source.
func decisionBits(flags rule.Flags) uint32 {
	return 1<<(allowedBy+sourceOf(flags)) | 1<<(refusedBy+sourceOf(flags))
}

func (t *tally) addLocked(id name) *series {
	s := &series{name: id, counts: lanes.New(counts)}
	t.all = append(t.all, s)
	return s
}

// allSeries returns all series.
func (t *tally) allSeries() []*series {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[:len(t.all):len(t.all)]
}

// countSingle counts a decision made by TakeSingle.
func (t *tally) countSingle(limit *store.Limit, lane uint32, allowed bool, flags rule.Flags, cost int64, err error) {
	c := t.seriesOf(limit).counts.Lane(lane)
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
		countFlags(c, flags)
	}
}

// countRequest counts a decided request of a batch.
func (t *tally) countRequest(r *store.Request, lane uint32) {
	decides := (r.Op == rule.Take || r.Op == rule.TakeUpTo) && len(r.Charges) > 0
	if r.Err != nil {
		t.errors[kindOf(r.Err)].Add(1)
		if decides {
			t.seriesOf(r.Charges[0].Limit).counts.Lane(lane)[failed].Add(1)
		}
		return
	}
	if decides {
		index, allowed := answering.Deciding(r.Answers)
		outcome := refusedBy
		if allowed {
			outcome = allowedBy
		}
		t.seriesOf(r.Charges[index].Limit).counts.Lane(lane)[outcome+sourceOf(r.Answers[index].Flags)].Add(1)
	}
	if r.Op == rule.Peek {
		return
	}
	again := r.Op == rule.Settle && slices.ContainsFunc(r.Answers, func(a rule.Answer) bool { return a.Flags&rule.Repeated != 0 })
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
			of.call(lane, answer)
		}
		if answer.Flags != 0 {
			countFlags(of.counts.Lane(lane), answer.Flags)
		}
	}
}

// units counts units that were charged or given back.
func (s *series) units(lane uint32, count int, units int64, flags rule.Flags) {
	if units != 0 && charges(flags) {
		s.counts.Lane(lane)[count].Add(units)
	}
}

// call counts what a call charged. A repeated call charges nothing, and returns what the first one did.
func (s *series) call(lane uint32, answer *rule.Answer) {
	switch {
	case answer.Flags&rule.Repeated != 0:
		s.rare[callRepeated-counts].Add(1)
		return
	case answer.Flags&rule.NotOnce != 0:
		s.rare[notOnce-counts].Add(1)
	}
	s.units(lane, granted, answer.Granted, answer.Flags)
}

// settlement counts what a settlement gave back or charged. A repeated settlement changes nothing, and returns the
// earlier answer again: also for slots, whose answers do not have the flag.
func (s *series) settlement(lane uint32, answer *rule.Answer, again bool) {
	switch {
	case answer.Flags&rule.Repeated != 0:
		s.rare[repeated-counts].Add(1)
	case again:
	case answer.Flags&rule.Unsettled != 0:
		s.rare[unsettled-counts].Add(1)
	case answer.Granted > 0:
		s.units(lane, givenBack, answer.Granted, answer.Flags)
	default:
		s.units(lane, granted, -answer.Granted, answer.Flags)
	}
}

// renewal counts a slot or a hold that was renewed, or was lost. Other limits have neither.
func (s *series) renewal(limit *store.Limit, answer *rule.Answer) {
	done, gone := renewed, lost
	if limit.Rule().Hold > 0 {
		done, gone = holdRenewed, holdLost
	}
	switch {
	case limit.Rule().Algorithm != rule.InFlight && limit.Rule().Hold == 0 || !charges(answer.Flags):
	case answer.Allowed:
		s.rare[done-counts].Add(1)
	default:
		s.rare[gone-counts].Add(1)
	}
}

// charges reports whether an answer with these flags moved units of a limit: where a failure mode admits or refuses
// everything, nothing is charged or given back, whatever the answer.
func charges(flags rule.Flags) bool {
	return flags == 0 || flags&rule.FallbackOpen == 0 && flags&rule.FallbackClosed == 0
}

func countFlags(c []atomic.Int64, flags rule.Flags) {
	if flags&rule.Inherited != 0 {
		c[inherited].Add(1)
	}
	if flags&rule.ClockMoved != 0 {
		c[clockMoved].Add(1)
	}
}
