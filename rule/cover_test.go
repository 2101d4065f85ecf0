package rule

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A store may forget a state before it has expired if another state covers it.

// A state that covers others never has more left than any of them.
func TestCover(t *testing.T) {
	property(t, 2_000, func(t *rapid.T) {
		l := drawLimit(t)
		now := drawOrigin(t, &l)
		s, other := drawNear(t, &l, now), drawNear(t, &l, now)
		if l.Algorithm == TokenBucket && rapid.Bool().Draw(t, "same time") {
			other.Start, other.Until = s.Start, min(other.Until+s.Start-other.Start, MaxQuota)
		}
		covered, untouched := s.Clone(), other.Clone()
		byShape := s.Clone()
		l.Cover(&covered, &other, now)
		if !sameState(&other, &untouched) {
			t.Fatalf("Cover changed the covered state from %+v to %+v", untouched, other)
		}
		shape := l.Shape().Limit()
		if shape.Cover(&byShape, &other, now); !sameState(&covered, &byShape) {
			t.Fatalf("Cover made %+v with the limit and %+v with its shape", covered, byShape)
		}
		checkState(t, &l, &covered)
		if l.View(&covered, now).Moved && !sameState(&covered, &s) {
			t.Fatalf("%+v: the result is still ahead of %d: %+v", l, now, covered)
		}
		// A state ahead of the clock is treated as if made now: it does not run ahead forever.
		writeMoved(&l, &s, now)
		writeMoved(&l, &other, now)
		if free := resetAfter(&l, &covered, now); free < resetAfter(&l, &s, now) || free < resetAfter(&l, &other, now) {
			t.Fatalf("%+v: %+v covers %+v and %+v, but is free before them, after %d", l, covered, s, other, free)
		}
		for range 8 {
			later := clamp(now+draw(t, "later", 0, 3*l.Window), 0, MaxNow)
			room := l.View(&covered, later).Room
			if of := min(l.View(&s, later).Room, l.View(&other, later).Room); room > of {
				t.Fatalf("%+v, covered at %d\ns:       %+v %v\nother:   %+v %v\ncovered: %+v %v\nat %d it has %d left, one of the others only %d",
					l, now, s, s.Log.Times(), other, other.Log.Times(), covered, covered.Log.Times(), later, room, of)
			}
		}
	})
}

// A log that the clock left ahead covers one that is not: all four units still count, until the last of both has expired.
func TestCoverByALogAhead(t *testing.T) {
	l := normal(t, Limit{Algorithm: SlidingLog, Quota: 5, Window: 10 * second})
	for _, ahead := range []Micros{0, 9 * second, 10 * second, 11 * second, 5_000 * second} {
		s := State{Log: LogOf([]Micros{100*second + ahead}, l.Window, l.Quota)}
		other := State{Log: LogOf([]Micros{92 * second, 93 * second, 94 * second, 95 * second}, l.Window, l.Quota)}
		l.Cover(&s, &other, 100*second)
		if used := l.Used(&s, 100*second); used != 4 {
			t.Errorf("ahead by %d: used %d, want 4", ahead, used)
		}
		if used := l.Used(&s, 100*second+max(10*second, ahead+10*second)); used != 0 {
			t.Errorf("ahead by %d: used %d in the end, want 0", ahead, used)
		}
	}
}

// Covered units keep their age: the units of [60s, 120s) have expired at 180s, whichever state holds them.
func TestCoverKeepsTheAge(t *testing.T) {
	l := normal(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute, Overlap: OverlapWhole})
	var s, other State
	l.TakeOne(&other, 70*second, 4)
	l.Cover(&s, &other, 130*second)
	for at, want := range map[Micros]int64{130 * second: 4, 180*second - 1: 4, 180 * second: 0} {
		if used := l.Used(&s, at); used != want {
			t.Errorf("at %d: used %d, want %d", at, used, want)
		}
	}
}

// drawNear returns a state as it may be at now: used recently, a while ago or, after the clock stepped back, slightly in
// the future.
func drawNear(t *rapid.T, l *Limit, now Micros) (s State) {
	if rapid.IntRange(0, 3).Draw(t, "script") == 0 {
		s, _ = drawUsed(t, l, now)
		return s
	}
	own := clamp(now+draw(t, "ahead", 0, l.Window)-draw(t, "behind", 0, 2*l.Window), 0, MaxNow)
	if rapid.IntRange(0, 9).Draw(t, "jumped") == 9 {
		own = clamp(own+l.Window+draw(t, "jump", 0, l.Window), 0, MaxNow)
	}
	switch l.Algorithm {
	case SlidingLog:
		times := make([]Micros, rapid.Int64Range(0, min(l.Quota, 20)).Draw(t, "units"))
		for i := range times {
			times[i] = own - spread(t, "unit", 0, l.Window-1)
		}
		slices.Sort(times)
		s.Log = LogOf(times, l.Window, l.Quota)
	case TokenBucket:
		if rapid.IntRange(0, 3).Draw(t, "legacy") == 0 {
			return LegacyBucket(own, draw(t, "rest", 0, l.Quota-1))
		}
		s.Start, s.Missing, s.Rest = own, draw(t, "missing", 0, min(l.Burst+l.Quota, MaxQuota)), draw(t, "rest", 0, int64(l.Window)-1)
		fills := product(s.Missing, l.Window).plus(wide{0, uint64(s.Rest)}).overUp(l.Quota)
		s.Until = min(own+max(l.Window, min(Micros(fills), 2*MaxWindow))+draw(t, "until", 0, MaxWindow), MaxQuota)
	case InFlight:
		for i := range rapid.Int64Range(0, min(l.Quota, 20)).Draw(t, "slots") {
			s.Slots = append(s.Slots, Slot{ID(i + 1), own - spread(t, "slot", 0, l.Window-1)})
		}
		slices.SortFunc(s.Slots, func(a, b Slot) int { return int(max(-1, min(1, a.Renewed-b.Renewed))) })
	default:
		s = drawCounts(t, l)
		s.Start = startOf(l, own)
	}
	return s
}

func resetAfter(l *Limit, s *State, now Micros) Micros {
	v := l.View(s, now)
	return l.resetAfter(s, &v)
}

func writeMoved(l *Limit, s *State, now Micros) {
	if v := l.View(s, now); v.Moved {
		l.writeBack(s, &v)
	}
}

// Covering an absent state changes nothing, and an absent state that covers another one becomes equal to it.
func TestCoverNothing(t *testing.T) {
	property(t, 1_500, func(t *rapid.T) {
		l := drawLimit(t)
		now := drawOrigin(t, &l)
		s := drawNear(t, &l, now)
		writeMoved(&l, &s, now)
		var nothing, covered State
		before := s.Clone()
		if l.Cover(&s, &nothing, now); l.Used(&before, now) != l.Used(&s, now) {
			t.Fatalf("%+v: covering an absent state changed %+v to %+v", l, before, s)
		}
		l.Cover(&covered, &s, now)
		for range 4 {
			later := clamp(now+draw(t, "later", 0, 3*l.Window), 0, MaxNow)
			a, b := l.Used(&covered, later), l.Used(&s, later)
			// A window anchored at the first request begins again when it is inherited, and a legacy bucket does not store
			// how much is missing, so these may count more.
			if a < b || a > b && l.Anchor == AnchorClock && s.Missing != legacyBucket {
				t.Fatalf("%+v: %+v covers %+v, but uses %d instead of %d at %d", l, covered, s, a, b, later)
			}
		}
		if len(s.Counts) > 0 && len(covered.Counts) > 0 && &s.Counts[0] == &covered.Counts[0] {
			t.Fatalf("the two share memory")
		}
	})
}
