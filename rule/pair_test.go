package rule

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TakePair decides as TakeOne does.

// Stores call TakePair only if windows start at multiples of their length, so that a number can stand for the start; there
// it is the same for all.
func TestPairSameAsTakeOne(t *testing.T) {
	common := 0
	property(t, 6_000, func(t *rapid.T) {
		l := Limit{Algorithm: Algorithm(oneOf(t, "algorithm", int64(SlidingWindow), int64(FixedWindow)))}
		if l.Algorithm == SlidingWindow {
			l.Segments, l.Overlap = 1, Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
		}
		l.CountDenied = rapid.IntRange(0, 7).Draw(t, "count denied") == 0
		l = drawSize(t, l)
		s := drawCounts(t, &l)
		now := clamp(s.Start+draw(t, "since", -2*l.Window, 3*l.Window), 0, MaxNow)
		cost := drawCost(t, &l, l.View(&s, now).Room)
		if checkPair(t, &l, &s, now, cost) {
			common++
		}
	})
	if common == 0 {
		t.Error("TakePair never decided")
	}
}

func checkPair(t tb, l *Limit, s *State, now Micros, cost int64) (common bool) {
	counts := append(slices.Clone(s.Counts), 0)
	verdict, shift, current, previous, remaining, wait, reset := l.TakePair(s.Start, counts[0], counts[1], now, cost)
	if verdict == Undecided {
		return false
	}
	after := s.Clone()
	a, changed := l.TakeOne(&after, now, cost)
	pair := Answer{Allowed: verdict == Admitted, Remaining: remaining, ResetAfter: reset, At: now}
	if pair.Allowed {
		pair.Granted, pair.NextAfter = cost, wait
	} else {
		pair.RetryAfter = wait
	}
	if a != pair {
		t.Fatalf("%+v\n%+v at %d, cost %d: TakePair answers %+v, the rule %+v", l, s, now, cost, pair, a)
	}
	next := State{Start: s.Start + Micros(shift)*l.Window, Counts: []int64{current, previous}[:l.Parts()]}
	if changed && !sameState(&after, &next) {
		t.Fatalf("%+v\n%+v at %d, cost %d: TakePair leaves %+v, the rule %+v", l, s, now, cost, next, after)
	}
	return true
}
