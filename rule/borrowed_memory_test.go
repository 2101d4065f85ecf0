package rule

import (
	"slices"
	"testing"
)

// States use the memory that a store lends them, and decisions do not allocate.

func TestCountsStayInLentMemory(t *testing.T) {
	l := normal(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute, Segments: 3})
	lent := []int64{7, 7, 7, 7} // left by an earlier key, and ignored while the state is absent
	s := State{Start: Absent, Counts: lent}
	if a, changed := l.TakeOne(&s, 60*second, 4); !changed || a.Remaining != 6 {
		t.Fatalf("a new key: got %d left, changed %v", a.Remaining, changed)
	}
	l.TakeOne(&s, 80*second, 3)
	if &s.Counts[0] != &lent[0] || !slices.Equal(lent, []int64{3, 4, 0, 0}) {
		t.Errorf("got the lent counts %v and the state's %v, want the same memory with 3 4 0 0", lent, s.Counts)
	}
	s.reset()
	if &s.Counts[0] != &lent[0] || lent[0] != 0 || lent[1] != 0 || s.Start != Absent {
		t.Errorf("after Clear: got the lent counts %v and the state %+v, want zero counts in the same memory, and an absent state", lent, s)
	}
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	for _, choice := range everyChoice() {
		l := choice
		if l.Quota = 100; l.Calendar == 0 {
			l.Window = Micros(max(1, l.Segments)) * second
		}
		l = normal(t, l)
		var s State
		now := 1_000 * second
		l.TakeOne(&s, now, 100) // from here on it needs no more memory
		items, answers := []Item{{Limit: &l, State: &s, Cost: 1}}, make([]Answer, 1)
		if n := testing.AllocsPerRun(200, func() {
			now += l.Window / 30
			l.TakeOne(&s, now, 5)
			for _, op := range []Op{Take, Peek, Charge} {
				Decide(op, items, now, answers)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations in four decisions, want 0", nameOfChoice(l), n)
		}
	}
}
