package rule_test

import (
	"testing"

	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/internal/summary"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// A store may forget a state before it has expired if it keeps a summary.

// A state recalled from a summary, or from a larger one, admits nothing that the original state would have refused, even if
// quota, burst, overlap and count_refused change from request to request.
func TestRecallOnlyRefuses(t *testing.T) {
	for _, choice := range rule.EveryChoice() {
		t.Run(rule.NameOfChoice(choice), func(t *testing.T) {
			rule.Property(t, 300, func(t *rapid.T) { checkRecalled(t, rule.DrawSize(t, choice)) })
		})
	}
}

func checkRecalled(t *rapid.T, l rule.Limit) {
	now := rule.DrawOrigin(t, &l)
	real := rule.DrawNear(t, &l, now)
	rule.WriteMoved(&l, &real, now) // a state ahead of the clock is treated as if made now
	before := real.Clone()
	m := summary.Of(&l, &real, now)
	if !rule.SameState(&before, &real) {
		t.Fatalf("summarizing changed %+v to %+v", before, real)
	}
	if of := shape.Of(&l); summary.Of(&of, &real, now) != m {
		t.Fatalf("the summary is %+v with the limit and %+v with its shape", m, summary.Of(&of, &real, now))
	}
	var recalled rule.State
	if grown := drawLarger(t, &l, m, now); m.Units > 0 {
		grown.Recall(&l, &recalled)
		rule.CheckState(t, &l, &recalled)
		if l.Expires(&recalled) < l.Expires(&real) && l.Expires(&real) > now {
			t.Fatalf("%+v: %+v expires at %d, recalled from %+v at %d", l, real, l.Expires(&real), grown, l.Expires(&recalled))
		}
	}
	first, last := recalled.Clone(), rule.Answer{}
	for range rapid.IntRange(1, 10).Draw(t, "steps") {
		now = max(now, rule.DrawMoment(t, &l, oneOfStates(t, &real, &recalled), now, &last))
		if rapid.IntRange(0, 3).Draw(t, "another plan") == 0 {
			l = drawPlan(t, l)
		}
		last = decideBoth(t, &l, &real, &recalled, now)
		if t.Failed() {
			t.Fatalf("it began as %+v %v, summarized as %+v, recalled as %+v", before, before.Log.Times(), m, first)
		}
	}
}

func oneOfStates(t *rapid.T, a, b *rule.State) *rule.State {
	if rapid.Bool().Draw(t, "by the recalled one") {
		return b
	}
	return a
}

// drawLarger returns a summary that is nowhere smaller than m.
func drawLarger(t *rapid.T, l *rule.Limit, m summary.Summary, now rule.Micros) summary.Summary {
	most := rule.MaxQuota - m.Units
	if (l.Algorithm == rule.SlidingLog || l.Algorithm == rule.InFlight) && rapid.IntRange(0, 99).Draw(t, "many units") < 99 {
		most = 60 // as large as their quotas
	}
	m.Units += rule.Draw(t, "more units", 0, most)
	if l.Anchor == rule.AnchorClock { // at most a window ahead: a state beyond that is moved back
		m.At += rule.Draw(t, "later", 0, max(0, now+l.Window-m.At))
	}
	m.Expires += rule.Draw(t, "longer", 0, l.Window)
	return m
}

// drawPlan returns another limit of the same shape.
func drawPlan(t *rapid.T, l rule.Limit) rule.Limit {
	if l.Algorithm == rule.SlidingWindow {
		l.Overlap = rule.Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
	}
	l.CountRefused = l.Algorithm != rule.InFlight && rapid.Bool().Draw(t, "count refused")
	return rule.DrawQuota(t, l)
}

// decideBoth decides by the recalled state. Whatever that admits, the real state must admit too. Both are charged the same, so
// the real state is what the rule makes of the same admissions and refusals. If a refusal takes nothing from the recalled state,
// because that is a bucket without anything left to take, it takes nothing from the real one.
func decideBoth(t *rapid.T, l *rule.Limit, real, recalled *rule.State, now rule.Micros) rule.Answer {
	room, truth := l.Capacity()-l.Used(recalled, now), l.Capacity()-l.Used(real, now)
	cost, id := max(1, rule.DrawCost(t, l, room)), rule.DrawID(t, l)
	forced := rapid.IntRange(0, 9).Draw(t, "forced") == 0
	allowed, right := l.Admits(recalled, now, cost), l.Admits(real, now, cost)
	switch {
	case forced || allowed:
		if !forced && !right {
			t.Errorf("%+v: at %d the recalled state admits %d, but the real one has %d left\nrecalled: %+v\nreal:     %+v",
				*l, now, cost, truth, *recalled, *real)
		}
		for _, s := range []*rule.State{recalled, real} {
			rule.Decide(rule.Charge, []rule.Item{{Limit: l, State: s, Cost: cost, ID: id}}, now, make([]rule.Answer, 1))
		}
	default:
		if l.Refuse(recalled, now, cost) {
			l.Refuse(real, now, cost)
		}
	}
	return l.Answer(recalled, now, cost, 0, allowed, false)
}

// A summary does not grow by itself: the state recalled from it has the same summary.
func TestSummaryOfRecalled(t *testing.T) {
	rule.Property(t, 1_000, func(t *rapid.T) {
		l := rule.DrawLimit(t)
		now := rule.DrawOrigin(t, &l)
		real := rule.DrawNear(t, &l, now)
		m := summary.Of(&l, &real, now)
		if m.Units == 0 {
			return
		}
		var recalled rule.State
		m.Recall(&l, &recalled)
		again := summary.Of(&l, &recalled, now)
		if l.Calendar != 0 { // a state written with other zone data may begin later than the period
			again.At, m.At = 0, 0
		}
		if again != m {
			t.Fatalf("%+v: %+v has the summary %+v, but the state recalled from it has %+v", l, real, m, again)
		}
	})
}

func TestSummaryOfNothing(t *testing.T) {
	for _, l := range rule.EveryChoice() {
		if l.Quota = 5; l.Calendar == 0 {
			l.Window = rule.Micros(max(1, l.Segments)) * rule.Second
		}
		l = rule.Normal(t, l)
		var s rule.State
		if m := summary.Of(&l, &s, 100*rule.Second); m != (summary.Summary{}) {
			t.Errorf("%s: a key never seen has the summary %+v", rule.NameOfChoice(l), m)
		}
		l.TakeOne(&s, 100*rule.Second, 1)
		if m := summary.Of(&l, &s, 100*rule.Second); m.Units != 1 || m.Expires < l.Expires(&s) || l.Algorithm != rule.DefaultAlgorithm && m.Expires != l.Expires(&s) {
			t.Errorf("%s: after one unit the summary is %+v, and the state expires at %d", rule.NameOfChoice(l), m, l.Expires(&s))
		}
		if m := summary.Of(&l, &s, l.Expires(&s)); m != (summary.Summary{}) {
			t.Errorf("%s: an expired state has the summary %+v", rule.NameOfChoice(l), m)
		}
	}
}

// The units of a window's parts count as if they belonged to the newest part, and only while they are in the window.
func TestSummaryOfParts(t *testing.T) {
	l := rule.Normal(t, rule.Limit{Algorithm: rule.SlidingWindow, Quota: 10, Window: rule.Minute, Segments: 3})
	var s rule.State
	l.TakeOne(&s, 60*rule.Second, 1)
	l.TakeOne(&s, 80*rule.Second, 2)
	l.TakeOne(&s, 100*rule.Second, 4)
	for now, want := range map[rule.Micros]summary.Summary{
		119 * rule.Second: {Units: 7, At: 100 * rule.Second, Expires: 180 * rule.Second},
		140 * rule.Second: {Units: 6, At: 100 * rule.Second, Expires: 180 * rule.Second}, // the first unit's part has left the window
		179 * rule.Second: {Units: 4, At: 100 * rule.Second, Expires: 180 * rule.Second},
		180 * rule.Second: {},
	} {
		if m := summary.Of(&l, &s, now); m != want {
			t.Errorf("at %d the summary is %+v, want %+v", now, m, want)
		}
	}
}

// A key whose windows start with its first request keeps its grid, even if all of its units were given back.
func TestSummaryKeepsTheGrid(t *testing.T) {
	l := rule.Normal(t, rule.Limit{Algorithm: rule.FixedWindow, Quota: 5, Window: rule.Minute, Anchor: rule.AnchorFirst})
	var s, recalled rule.State
	l.TakeOne(&s, 70*rule.Second, 3)
	summary.Of(&l, &s, 100*rule.Second).Recall(&l, &recalled)
	if recalled.Start != 70*rule.Second {
		t.Errorf("the window starts at %d, want 70 s", recalled.Start)
	}
	items := []rule.Item{{Limit: &l, State: &s, Cost: 3, At: rule.Oldest}}
	rule.Decide(rule.GiveBack, items, 100*rule.Second, make([]rule.Answer, 1))
	if m := summary.Of(&l, &s, 100*rule.Second); m != (summary.Summary{Units: 1, At: 70 * rule.Second, Expires: 130 * rule.Second}) {
		t.Errorf("got the summary %+v", m)
	}
}
