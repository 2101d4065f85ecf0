package rule

import (
	"testing"

	"pgregory.net/rapid"
)

// A store may forget a state before it has expired if it keeps a summary.

// A state recalled from a summary, or from a larger one, admits nothing that the original state would have denied, even if
// quota, burst, overlap and count_denied change from request to request.
func TestRecallOnlyDenies(t *testing.T) {
	for _, choice := range everyChoice() {
		t.Run(nameOfChoice(choice), func(t *testing.T) {
			property(t, 300, func(t *rapid.T) { checkRecalled(t, drawSize(t, choice)) })
		})
	}
}

func checkRecalled(t *rapid.T, l Limit) {
	now := drawOrigin(t, &l)
	real := drawNear(t, &l, now)
	legacy := real.Missing == legacyBucket
	writeMoved(&l, &real, now) // a state ahead of the clock is treated as if made now
	before := real.Clone()
	m := l.Summarize(&real, now)
	if !sameState(&before, &real) {
		t.Fatalf("summarizing changed %+v to %+v", before, real)
	}
	if shape := l.Shape().Limit(); shape.Summarize(&real, now) != m {
		t.Fatalf("the summary is %+v with the limit and %+v with its shape", m, shape.Summarize(&real, now))
	}
	var recalled State
	if grown := drawLarger(t, &l, m, now); m.Units > 0 {
		l.Recall(grown, &recalled)
		checkState(t, &l, &recalled)
		if l.Expires(&recalled) < l.Expires(&real) && l.Expires(&real) > now {
			t.Fatalf("%+v: %+v expires at %d, recalled from %+v at %d", l, real, l.Expires(&real), grown, l.Expires(&recalled))
		}
	}
	first, last := recalled.Clone(), Answer{}
	for range rapid.IntRange(1, 10).Draw(t, "steps") {
		now = max(now, drawMoment(t, &l, oneOfStates(t, &real, &recalled), now, &last))
		if !legacy && rapid.IntRange(0, 3).Draw(t, "another plan") == 0 {
			l = drawPlan(t, l)
		}
		last = decideBoth(t, &l, &real, &recalled, now)
		if t.Failed() {
			t.Fatalf("it began as %+v %v, summarized as %+v, recalled as %+v", before, before.Log.Times(), m, first)
		}
	}
}

func oneOfStates(t *rapid.T, a, b *State) *State {
	if rapid.Bool().Draw(t, "by the recalled one") {
		return b
	}
	return a
}

// drawLarger returns a summary that is nowhere smaller than m.
func drawLarger(t *rapid.T, l *Limit, m Summary, now Micros) Summary {
	most := MaxQuota - m.Units
	if (l.Algorithm == SlidingLog || l.Algorithm == InFlight) && rapid.IntRange(0, 99).Draw(t, "many units") < 99 {
		most = 60 // as large as their quotas
	}
	m.Units += draw(t, "more units", 0, most)
	if l.Anchor == AnchorClock { // at most a window ahead: a state beyond that is moved back
		m.At += draw(t, "later", 0, max(0, now+l.Window-m.At))
	}
	m.Expires += draw(t, "longer", 0, l.Window)
	return m
}

// drawPlan returns another limit of the same shape.
func drawPlan(t *rapid.T, l Limit) Limit {
	if l.Algorithm == SlidingWindow {
		l.Overlap = Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
	}
	l.CountDenied = l.Algorithm != InFlight && rapid.Bool().Draw(t, "count denied")
	return drawQuota(t, l)
}

// decideBoth decides by the recalled state. Whatever that admits, the real state must admit too. Both are charged the same, so
// the real state is what the rule makes of the same admissions and denials. If a denial takes nothing from the recalled state,
// because that is a bucket without anything left to take, it takes nothing from the real one.
func decideBoth(t *rapid.T, l *Limit, real, recalled *State, now Micros) Answer {
	v, truth := l.View(recalled, now), l.View(real, now)
	cost, id := max(1, drawCost(t, l, v.Room)), drawID(t, l)
	forced := rapid.IntRange(0, 9).Draw(t, "forced") == 0
	allowed, right := l.admits(&v, cost), l.admits(&truth, cost)
	switch {
	case forced || allowed:
		if !forced && !right {
			t.Errorf("%+v: at %d the recalled state admits %d, but the real one has %d left\nrecalled: %+v\nreal:     %+v",
				*l, now, cost, truth.Room, *recalled, *real)
		}
		l.charge(recalled, &v, cost, id)
		l.charge(real, &truth, cost, id)
	default:
		if l.refuse(recalled, &v, cost) {
			l.refuse(real, &truth, cost)
		}
	}
	return l.Answer(recalled, &v, cost, 0, allowed)
}

// A summary does not grow by itself: the state recalled from it has the same summary.
func TestSummaryOfRecalled(t *testing.T) {
	property(t, 1_000, func(t *rapid.T) {
		l := drawLimit(t)
		now := drawOrigin(t, &l)
		real := drawNear(t, &l, now)
		m := l.Summarize(&real, now)
		if m.Units == 0 {
			return
		}
		var recalled State
		l.Recall(m, &recalled)
		again := l.Summarize(&recalled, now)
		if l.Calendar != NoPeriod { // a state written with other zone data may begin later than the period
			again.At, m.At = 0, 0
		}
		if again != m {
			t.Fatalf("%+v: %+v has the summary %+v, but the state recalled from it has %+v", l, real, m, again)
		}
	})
}

func TestSummaryOfNothing(t *testing.T) {
	for _, l := range everyChoice() {
		if l.Quota = 5; l.Calendar == NoPeriod {
			l.Window = Micros(max(1, l.Segments)) * second
		}
		l = normal(t, l)
		var s State
		if m := l.Summarize(&s, 100*second); m != (Summary{}) {
			t.Errorf("%s: a key never seen has the summary %+v", nameOfChoice(l), m)
		}
		l.TakeOne(&s, 100*second, 1)
		if m := l.Summarize(&s, 100*second); m.Units != 1 || m.Expires != l.Expires(&s) {
			t.Errorf("%s: after one unit the summary is %+v, and the state expires at %d", nameOfChoice(l), m, l.Expires(&s))
		}
		if m := l.Summarize(&s, l.Expires(&s)); m != (Summary{}) {
			t.Errorf("%s: an expired state has the summary %+v", nameOfChoice(l), m)
		}
	}
}

// The units of a window's parts count as if they belonged to the newest part, and only while they are in the window.
func TestSummaryOfParts(t *testing.T) {
	l := normal(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute, Segments: 3})
	var s State
	l.TakeOne(&s, 60*second, 1)
	l.TakeOne(&s, 80*second, 2)
	l.TakeOne(&s, 100*second, 4)
	for now, want := range map[Micros]Summary{
		119 * second: {7, 100 * second, 180 * second},
		140 * second: {6, 100 * second, 180 * second}, // the first unit's part has left the window
		179 * second: {4, 100 * second, 180 * second},
		180 * second: {},
	} {
		if m := l.Summarize(&s, now); m != want {
			t.Errorf("at %d the summary is %+v, want %+v", now, m, want)
		}
	}
}

// A key whose windows start with its first request keeps its grid, even if all of its units were given back.
func TestSummaryKeepsTheGrid(t *testing.T) {
	l := normal(t, Limit{Algorithm: FixedWindow, Quota: 5, Window: minute, Anchor: AnchorFirst})
	var s, recalled State
	l.TakeOne(&s, 70*second, 3)
	l.Recall(l.Summarize(&s, 100*second), &recalled)
	if recalled.Start != 70*second {
		t.Errorf("the window starts at %d, want 70 s", recalled.Start)
	}
	v := l.View(&s, 100*second)
	l.giveBack(&s, &v, 3, Oldest, 0)
	if m := l.Summarize(&s, 100*second); m != (Summary{1, 70 * second, 130 * second}) {
		t.Errorf("got the summary %+v", m)
	}
}
