package rule

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// RetryAfter, NextAfter and ResetAfter are exact, for every algorithm and every combination of options.

// everyChoice returns a limit without a size for each combination of options.
func everyChoice() (limits []Limit) {
	for _, refused := range []bool{false, true} {
		limits = append(limits,
			Limit{CountRefused: refused},
			Limit{Algorithm: SlidingLog, CountRefused: refused},
			Limit{Algorithm: TokenBucket, CountRefused: refused},
			Limit{Algorithm: FixedWindow, Anchor: AnchorClock, CountRefused: refused},
			Limit{Algorithm: FixedWindow, Anchor: AnchorFirst, CountRefused: refused},
			Limit{Algorithm: FixedWindow, Calendar: Day, Zone: "America/Sao_Paulo", CountRefused: refused},
			Limit{Algorithm: FixedWindow, Calendar: Week, Zone: "Europe/Berlin", CountRefused: refused},
			Limit{Algorithm: FixedWindow, Calendar: Month, Zone: "Asia/Kathmandu", CountRefused: refused},
		)
		for _, overlap := range []Overlap{OverlapUp, OverlapDown, OverlapWhole} {
			for _, anchor := range []Anchor{AnchorClock, AnchorFirst} {
				for _, segments := range []int{1, 2, 7, 60, 64} {
					limits = append(limits, Limit{Algorithm: SlidingWindow, Overlap: overlap, Anchor: anchor, Segments: segments, CountRefused: refused})
				}
			}
		}
	}
	return append(limits, Limit{Algorithm: InFlight})
}

func nameOfChoice(l Limit) string {
	name := l.Algorithm.String()
	if l.Algorithm == SlidingWindow {
		name += fmt.Sprintf("/%s/segments-%d", l.Overlap, l.Segments)
	}
	if l.Algorithm == SlidingWindow || l.Algorithm == FixedWindow {
		name += "/" + l.Anchor.String()
	}
	if l.Calendar != 0 {
		name += fmt.Sprintf("/%s/%s", l.Calendar, l.Zone)
	}
	if l.CountRefused {
		name += "/count_refused"
	}
	return name
}

func TestTimesAreExact(t *testing.T) {
	for _, choice := range everyChoice() {
		t.Run(nameOfChoice(choice), func(t *testing.T) {
			property(t, 100, func(t *rapid.T) {
				l := drawSize(t, choice)
				var s State
				now, last := drawOrigin(t, &l), Answer{}
				for range rapid.IntRange(1, 20).Draw(t, "steps") {
					st := drawStep(t, &l, &s, now, &last)
					a, _, cost := decideStep(t, &l, &s, st)
					checkTimes(t, &l, &s, st, cost, &a)
					now, last = st.at, a
				}
			})
		})
	}
}

// The same over arbitrary counts, even those that no script reaches.
func TestTimesAreExactOverAnyCounts(t *testing.T) {
	for _, choice := range everyChoice() {
		if choice.Parts() == 0 {
			continue
		}
		t.Run(nameOfChoice(choice), func(t *testing.T) {
			property(t, 100, func(t *rapid.T) {
				l := drawSize(t, choice)
				s := drawCounts(t, &l)
				for range 5 {
					since := draw(t, "since", -l.Window, Micros(l.Parts()+1)*l.part())
					now := clamp(s.Start+since, 0, MaxNow)
					st := step{at: now, cost: drawCost(t, &l, l.viewAt(&s, now).Room)}
					after := s.Clone()
					a, _, cost := decideStep(t, &l, &after, st)
					checkTimes(t, &l, &after, step{at: now}, cost, &a)
				}
			})
		})
	}
}

// drawCounts returns a window state with arbitrary counts, many of them 0 and many of about the size that matters.
func drawCounts(t *rapid.T, l *Limit) State {
	origin := drawOrigin(t, l)
	s := State{Start: startOf(l, origin), Counts: make([]int64, l.Parts())}
	most := oneOf(t, "most", 3, max(1, l.Quota/int64(l.Parts())), l.Quota, MaxQuota)
	for i := range s.Counts {
		if rapid.Bool().Draw(t, "charged") {
			s.Counts[i] = draw(t, "count", 0, most)
		}
	}
	return s
}

// startOf returns where the part that begins at a given time starts.
func startOf(l *Limit, at Micros) Micros {
	if l.Calendar != 0 {
		start, _ := l.Bounds(at)
		return start
	}
	return l.startAt(at)
}
