package rule

import (
	"testing"

	"pgregory.net/rapid"
)

// The steps of QuickParts give the same results as the rule.
func TestQuickPartsSameAsRule(t *testing.T) {
	rolled := map[uint]int{}
	property(t, 8_000, func(t *rapid.T) {
		l := drawSize(t, Limit{
			Algorithm: SlidingWindow, Segments: rapid.IntRange(2, MaxSegments).Draw(t, "segments"),
			Overlap: Overlap(rapid.IntRange(0, 2).Draw(t, "overlap")), Anchor: Anchor(rapid.IntRange(0, 1).Draw(t, "anchor")),
		})
		s := drawCounts(t, &l)
		if rapid.IntRange(0, 9).Draw(t, "absent") == 0 {
			s.Clear()
		}
		part := l.part()
		now := clamp(max(0, s.Start)+draw(t, "since", -2*l.Window, 2*l.Window)+part*Micros(rapid.IntRange(0, 3).Draw(t, "parts")), 0, MaxNow)
		v := l.View(&s, now)
		q := NewQuickParts(&l)
		start, at, shift, ok := q.Roll(&l, s.Start, now)
		if ok == v.Moved || ok && (start != v.start || at != v.At || shift != uint(v.shift)) {
			t.Fatalf("%+v\n%+v at %d rolls to %d, %d by %d (%t), under the rule to %+v", l, s, now, start, at, shift, ok, v)
		}
		if ok {
			rolled[min(shift, 2)]++
			checkQuickRoom(t, &l, &s, &v, &q)
		}
	})
	if len(rolled) < 3 {
		t.Errorf("not all cases occurred: %v", rolled)
	}
}

func checkQuickRoom(t *rapid.T, l *Limit, s *State, v *View, q *QuickParts) {
	var whole, oldest int64
	ages := l.Parts() - 1 - v.shift // how many parts are newer than the oldest one
	if ages >= 0 {
		oldest = s.Counts[ages]
		for _, count := range s.Counts[:ages] {
			whole += count
		}
	}
	if room := q.Room(l, whole, oldest, v.start+q.part-v.At); room != v.Room {
		t.Fatalf("%+v\n%+v at %d: room for %d, under the rule for %d", l, s, v.Now, room, v.Room)
	}
	n := drawCost(t, l, v.Room)
	if n <= v.Room || n > l.Quota || ages < 0 {
		return
	}
	start, room := v.start, l.Quota-n-whole
	at, ok := q.FreeAt(l, start, oldest, room)
	for ; !ok && ages > 0; at, ok = q.FreeAt(l, start, s.Counts[ages], room) {
		ages--
		start, room = start+q.part, room+s.Counts[ages]
	}
	if !ok {
		at = start + q.part
	}
	if want := v.Now + l.waitWindow(s, v, n); at != want {
		t.Fatalf("%+v\n%+v at %d: %d are free at %d, under the rule at %d", l, s, v.Now, n, at, want)
	}
}
