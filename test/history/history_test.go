package history

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

const (
	second = 1_000_000 // of time in microseconds; clocks of events are in nanoseconds
	base   = rule.Micros(1_767_000_000 * second)
)

func at(after rule.Micros) int64 { return int64(base+after) * 1_000 }

// answerTo returns the rule's answer if taken units were taken at base.
func answerTo(t *testing.T, taken int64, after rule.Micros, cost int64) rule.Answer {
	t.Helper()
	l := windowRule(t)
	var s rule.State
	if taken > 0 {
		l.TakeOne(&s, base, taken)
	}
	a, _ := l.TakeOne(&s, base+after, cost)
	return a
}

func windowRule(t *testing.T) *rule.Limit {
	t.Helper()
	limits, err := bound()
	if err != nil {
		t.Fatal(err)
	}
	return limits[0].Rule()
}

// Only a request that was not answered may explain what was seen afterwards.
func TestUnansweredRequestMayExplainLaterAnswers(t *testing.T) {
	lost := Event{Op: rule.Take, Cost: 5, Call: at(0), Return: at(1_000)}
	take := Event{Op: rule.Take, Cost: 3, Call: at(2_000), Return: at(4_000), Known: true}
	for _, c := range []struct {
		name   string
		events []Event
		taken  int64
		fine   bool
	}{
		{"not carried out", []Event{lost}, 0, true},
		{"carried out", []Event{lost}, 5, true},
		{"carried out twice", []Event{lost}, 10, false},
		{"two of them, both", []Event{lost, lost}, 10, true},
		{"two of them, one", []Event{lost, lost}, 5, true},
		{"out of nothing", nil, 5, false},
	} {
		take.Answer = answerTo(t, c.taken, 3_000, 3)
		if err := Check(append(c.events, take)); (err == nil) != c.fine {
			t.Errorf("%s: got error %v, want one: %v", c.name, err, !c.fine)
		}
	}
}

// A lost request can be carried out after others that were made later, in the same part of the window or another.
func TestUnansweredRequestMayBeCarriedOutLater(t *testing.T) {
	l := windowRule(t)
	lost := Event{Op: rule.Take, Cost: 5, Call: at(0), Return: at(1_000)}
	take := Event{Op: rule.Take, Cost: 3, Call: at(2_000), Return: at(4_000), Known: true, Answer: answerTo(t, 0, 3_000, 3)}
	later := Event{Op: rule.Take, Cost: 3, Call: at(300_000), Return: at(302_000), Known: true}
	for _, when := range []rule.Micros{3_500, 260_000} {
		var s rule.State
		l.TakeOne(&s, base+3_000, 3)
		l.TakeOne(&s, base+when, 5)
		later.Answer, _ = l.TakeOne(&s, base+301_000, 3)
		if err := Check([]Event{lost, take, later}); err != nil {
			t.Errorf("carried out at %d: %v", when, err)
		}
	}
}

// Counts are remembered until a crash that forgets them, and forgotten after it.
func TestCountsAreForgottenOnlyByCrashes(t *testing.T) {
	first := Event{Op: rule.Take, Cost: 5, Call: at(-1_000), Return: at(1_000), Known: true, Answer: answerTo(t, 0, 0, 5)}
	forget := Event{Forget: true, Call: at(1_500), Return: at(1_800)}
	take := Event{Op: rule.Take, Cost: 3, Call: at(2_000), Return: at(4_000), Known: true}
	for _, c := range []struct {
		name   string
		events []Event
		taken  int64
		fine   bool
	}{
		{"remembered", []Event{first}, 5, true},
		{"forgotten without a crash", []Event{first}, 0, false},
		{"forgotten after a crash", []Event{first, forget}, 0, true},
		{"remembered after a crash", []Event{first, forget}, 5, false},
	} {
		take.Answer = answerTo(t, c.taken, 3_000, 3)
		if err := Check(append(c.events, take)); (err == nil) != c.fine {
			t.Errorf("%s: got error %v, want one: %v", c.name, err, !c.fine)
		}
	}
}

// If very many requests for a key were lost, only the beginning is checked, and errors there are detected.
func TestOnlyTheBeginningIsCheckedIfManyAreLost(t *testing.T) {
	wrong := Event{Op: rule.Take, Cost: 3, Call: at(-2_000), Return: at(4_000), Known: true, Answer: answerTo(t, 5, 3_000, 3)}
	var lost []Event
	for i := range 40 {
		lost = append(lost, Event{Op: rule.Take, Cost: 1, Call: at(rule.Micros(5_000 + i)), Return: at(rule.Micros(6_000 + i))})
	}
	if err := Check(append(lost, wrong)); err == nil || errors.Is(err, ErrUndecided) {
		t.Errorf("before they were lost: %v", err)
	}
	wrong.Call, wrong.Return, wrong.Answer = at(7_000), at(9_000), answerTo(t, 5, 8_000, 3)
	if err := Check(append(lost, wrong)); err != nil {
		t.Errorf("after they were lost: %v", err)
	}
	if kept := beforeTooManyLost(append(slices.Clone(lost), wrong)); len(kept) != maxLost {
		t.Errorf("got %d events kept, want %d", len(kept), maxLost)
	}
	meanwhile := Event{Op: rule.Take, Cost: 1, Call: at(0), Return: at(9_000), Known: true}
	if kept := beforeTooManyLost(append(slices.Clone(lost), meanwhile)); kept[0].Known || kept[0].Return != at(5_000+maxLost) {
		t.Errorf("a request that was answered later: got %+v, want it unanswered", kept[0])
	}
}

// A log admits its quota in a window, and once more after a crash that forgets.
func TestLogAdmitsItsQuotaPerWindow(t *testing.T) {
	const log = 2
	if !isLog(log) {
		t.Fatal("the log is no longer at this index")
	}
	full := func(when rule.Micros) Event {
		return Event{Limit: log, Call: at(when), Return: at(when), Known: true, Answer: rule.Answer{At: base + when, Granted: Limits[log].Quota}}
	}
	forget := Event{Forget: true, Call: at(500_000), Return: at(600_000)}
	for _, c := range []struct {
		name   string
		events []Event
		fine   bool
	}{
		{"a window later", []Event{full(0), full(second)}, true},
		{"too early", []Event{full(0), full(second - 1)}, false},
		{"after a crash", []Event{full(0), forget, full(second - 1)}, true},
		{"after what was admitted just before a crash", []Event{full(510_000), forget, full(700_000)}, true},
		{"twice after a crash", []Event{full(0), forget, full(700_000), full(800_000)}, false},
		{"after a crash that came later", []Event{full(0), forget, full(400_000)}, false},
	} {
		if err := Check(c.events); (err == nil) != c.fine {
			t.Errorf("%s: got error %v, want one: %v", c.name, err, !c.fine)
		}
	}
}

// No change is planted that the check cannot detect: in an answer that came while everything was being forgotten, or that
// another request may explain.
func TestPlantsOnlyDetectableChanges(t *testing.T) {
	e := Event{Limit: 2, Call: at(0), Return: at(1_000), Known: true, Answer: rule.Answer{At: base + 500, Allowed: true, Granted: 1}}
	if !detectable([]Event{e}, e) {
		t.Error("an ordinary answer is not checked")
	}
	if forget := (Event{Forget: true, Call: at(400), Return: at(900)}); detectable([]Event{e, forget}, e) {
		t.Error("an answer during a crash is checked")
	}
	if lost := (Event{Limit: 2, Call: at(-500), Return: at(-400)}); detectable([]Event{lost, e}, e) {
		t.Error("an answer that a lost request may explain is checked")
	}
}

// A history of a store that runs the rule is correct, and every planted change is detected. A history in which answers are lost
// is also correct.
func TestRecordedHistoryOfTheRuleIsCorrect(t *testing.T) {
	t.Parallel()
	events := record(t, 1, 0)
	for _, err := range CheckPlanted(events) {
		t.Error(err)
	}
	if s := Summarize(events); s.Requests == 0 || s.Answered != s.Requests || s.Admitted == 0 || s.Admitted >= s.Answered || s.Forgotten != 0 {
		t.Errorf("got %+v, want every request answered, some but not all admitted, nothing forgotten", s)
	}
	for seed := range uint64(3) {
		if s := Summarize(record(t, 2+seed, 40)); s.Answered == s.Requests {
			t.Errorf("got %+v, want some requests without an answer", s)
		}
	}
}

// record records a history of a store that loses one answer in lost, and checks it.
func record(t *testing.T, seed uint64, lost int) []Event {
	t.Helper()
	slow := &slowStore{clock: storetest.NewClock(0), lost: lost, random: rand.New(rand.NewPCG(seed, 7))}
	slow.reference = storetest.NewReference(slow.clock)
	order := Task{Seed: seed, Until: time.Now().Add(1200 * time.Millisecond).UnixNano(), Keys: 4}
	events, err := Record(slow, func(context.Context) error { return nil }, order)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(events); err != nil && !errors.Is(err, ErrUndecided) {
		t.Errorf("seed %d: %v", seed, err)
	}
	return events
}

// slowStore takes the time of a round trip, so that a history does not become too long to check. It loses either the request
// or the answer.
type slowStore struct {
	store.Store
	reference *storetest.Reference

	mu     sync.Mutex
	clock  *storetest.Clock
	lost   int
	random *rand.Rand
}

var errLost = errors.New("lost")

func (s *slowStore) Apply(ctx context.Context, batch []store.Request) error {
	<-time.After(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.lost > 0 && s.random.IntN(s.lost) == 0
	if lost && s.random.IntN(2) == 0 {
		return errLost
	}
	s.clock.Set(rule.Micros(time.Now().UnixMicro()))
	err := s.reference.Apply(ctx, batch)
	if lost {
		return errLost
	}
	return err
}
