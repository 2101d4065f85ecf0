package rule

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// tb is the common interface of *testing.T and *rapid.T.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

func sprint[N ~int64](field string, got, want N) string {
	return fmt.Sprintf("%s is %d, want %d", field, got, want)
}

func normal(t tb, l Limit) Limit {
	t.Helper()
	n, err := l.Normalize()
	if err != nil {
		t.Fatalf("the limit %+v: %v", l, err)
	}
	return n
}

// checkAnswer checks what holds for every answer to any request.
func checkAnswer(t tb, l *Limit, a *Answer) {
	t.Helper()
	if a.Remaining < 0 || a.Remaining > l.Capacity() {
		t.Fatalf("remaining is %d, want 0 to %d: %+v", a.Remaining, l.Capacity(), a)
	}
	if a.Granted < -MaxQuota || a.Granted > MaxQuota || a.ResetAfter < 0 {
		t.Fatalf("the answer is inconsistent for %+v: %+v", l, a)
	}
	if l.Algorithm != TokenBucket && (a.ResetAfter == 0) != (a.Remaining == l.Capacity()) {
		t.Fatalf("ResetAfter must be 0 if and only if everything is free: %+v", a)
	}
}

// checkState checks what holds for every state, whatever happened to it.
func checkState(t tb, l *Limit, s *State) {
	t.Helper()
	if n := len(s.Counts); n != 0 && n != l.Parts() {
		t.Fatalf("got %d counts, want %d", n, l.Parts())
	}
	for _, count := range s.Counts {
		if count < 0 || count > MaxQuota {
			t.Fatalf("a count out of range: %v", s.Counts)
		}
	}
	least := Micros(0)
	if l.Calendar != 0 {
		least = -l.Window // a period that began before the epoch
	}
	if s.Start != Absent && (s.Start < least || s.Start > MaxQuota) {
		t.Fatalf("a start that a port cannot represent exactly: %d", s.Start)
	}
	if s.Missing < 0 || s.Missing > MaxQuota || s.Rest < 0 || s.Rest > MaxQuota || s.Until > MaxQuota {
		t.Fatalf("a bucket that a port cannot represent exactly: %+v", s)
	}
	for i, slot := range s.Slots {
		if i > 0 && slot.Renewed < s.Slots[i-1].Renewed {
			t.Fatalf("slots out of order: %v", s.Slots)
		}
	}
	if l.Parts() > 0 && l.Calendar == 0 && l.Anchor == AnchorClock && !s.absentWindow() && s.Start%l.part() != 0 {
		t.Fatalf("start %d is not a multiple of the part %d", s.Start, l.part())
	}
	if n := s.Log.Len(); n > MaxLogQuota {
		t.Fatalf("got a log of %d units", n)
	}
}

// checkTimes checks that the times in an answer are exact to the microsecond, given s right after it: the cost is admitted
// after RetryAfter and not before, one unit after NextAfter, and the whole capacity after ResetAfter.
func checkTimes(t tb, l *Limit, s *State, st step, cost int64, a *Answer) {
	t.Helper()
	now := st.at
	view := l.viewAt(s, now)
	if view.Moved {
		return // far ahead of the clock, and nothing was written: such a state stays ahead as time passes
	}
	switch {
	case a.Allowed && a.RetryAfter != 0:
		t.Fatalf("allowed, but RetryAfter is %d", a.RetryAfter)
	case a.Allowed:
	case st.refusedForGood(a), a.Flags&HoldsFull != 0: // a plain request would be admitted
	case cost > l.Capacity():
		if a.RetryAfter != Never {
			t.Fatalf("cost %d exceeds the capacity %d, but RetryAfter is %d", cost, l.Capacity(), a.RetryAfter)
		}
	case a.RetryAfter <= 0 || a.RetryAfter == Never:
		t.Fatalf("cost %d refused at %d, but RetryAfter is %d", cost, now, a.RetryAfter)
	case !admitted(l, s, now+a.RetryAfter, cost):
		t.Fatalf("cost %d refused at %d is still refused after %d: %+v, %+v", cost, now, a.RetryAfter, l, s)
	case admitted(l, s, now+a.RetryAfter-1, cost):
		t.Fatalf("cost %d refused at %d is admitted before %d: %+v, %+v", cost, now, a.RetryAfter, l, s)
	}
	switch {
	case (a.NextAfter != 0) != (a.Allowed && a.Remaining == 0) || a.NextAfter < 0:
		t.Fatalf("got NextAfter %d: %+v", a.NextAfter, a)
	case a.NextAfter > 0 && (!admitted(l, s, now+a.NextAfter, 1) || admitted(l, s, now+a.NextAfter-1, 1)):
		t.Fatalf("at %d, a unit does not become free after exactly %d: %+v, %+v", now, a.NextAfter, l, s)
	}
	if !admitted(l, s, now+a.ResetAfter, l.Capacity()) {
		t.Fatalf("at %d, after %d not everything is free: %+v, %+v", now, a.ResetAfter, l, s)
	}
	if a.ResetAfter > 0 && admitted(l, s, now+a.ResetAfter-1, l.Capacity()) {
		t.Fatalf("at %d, before %d everything is free already: %+v, %+v", now, a.ResetAfter, l, s)
	}
}

// refusedForGood reports whether a refusal does not depend on what is left: what is to be renewed is lost, or the call was cancelled.
func (st *step) refusedForGood(a *Answer) bool {
	return !a.Allowed && a.RetryAfter == Never && (st.op == Renew || st.op == Take && a.Flags&Repeated != 0)
}

// admitted reports whether cost is admitted at now, on a copy of s. Peek and Take must agree on it.
func admitted(l *Limit, s *State, now Micros, cost int64) bool {
	taken, peeked := s.Clone(), s.Clone()
	if l.Algorithm == InFlight && cost > 1 {
		v := l.viewAt(s, now)
		return cost <= v.Room // a request takes one slot at most
	}
	a, _ := l.TakeOne(&taken, now, cost)
	answers := make([]Answer, 1)
	Decide(Peek, []Item{{Limit: l, State: &peeked, Cost: cost}}, now, answers)
	if answers[0].Allowed != a.Allowed {
		panic(fmt.Sprintf("peek and take disagree on %d at %d under %+v: %+v", cost, now, l, s))
	}
	return a.Allowed
}

// checksGiven reports whether -rapid.checks was set on the command line.
var checksGiven = sync.OnceValue(func() (given bool) {
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	return given
})

// property checks prop on n random cases, a tenth of that with -short, or TEST_LONG times that if TEST_LONG is set. A
// failure prints the seed that repeats it.
func property(t *testing.T, n int, prop func(*rapid.T)) {
	t.Helper()
	if testing.Short() {
		n = max(1, n/10)
	}
	if times, err := strconv.Atoi(os.Getenv("TEST_LONG")); err == nil {
		n *= times
	}
	if !checksGiven() {
		setFlag(t, "rapid.checks", strconv.Itoa(n))
	}
	setFlag(t, "rapid.nofailfile", "true")
	rapid.Check(t, prop)
}

func setFlag(t *testing.T, name, value string) {
	t.Helper()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}
