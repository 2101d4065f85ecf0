package rule

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// How much is ever admitted in any stretch of time? That is what a limit promises, whatever is asked of it.

// admissions are the charges that were admitted, in the order of their times.
type admissions []charged

// add notes an admission. A moment earlier than one before it in the same part comes before that.
func (list *admissions) add(at Micros, units int64) {
	*list = append(*list, charged{at, units})
	for i := len(*list) - 1; i > 0 && (*list)[i].at < (*list)[i-1].at; i-- {
		(*list)[i], (*list)[i-1] = (*list)[i-1], (*list)[i]
	}
}

// most returns the largest number of units in any stretch that is so long and without one of its ends.
func (list admissions) most(length Micros) (most int64) {
	for i, last := range list {
		var units int64
		for _, c := range list[:i+1] {
			if c.at > last.at-length {
				units += c.units
			}
		}
		most = max(most, units)
	}
	return most
}

// hardStretch returns the longest stretch of time in which a limit never admits more than its quota; 0 if there is none.
func hardStretch(l *Limit) Micros {
	switch {
	case l.Algorithm == SlidingLog, l.Algorithm == SlidingWindow && l.Overlap == Whole:
		return l.Window
	case l.Algorithm == SlidingWindow:
		return l.Window - l.part()
	}
	return 0
}

func TestNeverOverInAnyStretch(t *testing.T) {
	for _, choice := range everyChoice() {
		l := choice
		l.Window, l.Quota = MaxWindow, 1
		if l.Calendar != NoPeriod || hardStretch(&l) == 0 {
			continue
		}
		t.Run(nameOfChoice(choice), func(t *testing.T) {
			property(t, 60, func(t *rapid.T) {
				l := drawSize(t, choice)
				list := drawAdmissions(t, &l)
				if most := list.most(hardStretch(&l)); most > l.Quota {
					t.Fatalf("%+v: %d in one stretch of %d: %v", l, most, hardStretch(&l), list)
				}
			})
		})
	}
}

// A bucket admits in no stretch more than it holds and what it is refilled with meanwhile.
func TestBucketNeverOverItsRate(t *testing.T) {
	property(t, 1_000, func(t *rapid.T) {
		l := drawSize(t, Limit{Algorithm: TokenBucket, CountDenied: rapid.Bool().Draw(t, "count denied")})
		list := drawAdmissions(t, &l)
		for i := range list {
			units := new(big.Int)
			for _, c := range list[i:] {
				units.Add(units, big.NewInt(c.units))
				refilled := new(big.Int).Mul(big.NewInt(int64(c.at-list[i].at)), big.NewInt(l.Quota))
				refilled.Quo(refilled, big.NewInt(int64(l.Window)))
				if units.Cmp(refilled.Add(refilled, big.NewInt(l.Burst))) > 0 {
					t.Fatalf("%+v: %v from %d to %d, at most %v: %v", l, units, list[i].at, c.at, refilled, list)
				}
			}
		}
	})
}

// drawAdmissions asks for as much as it can get, with a clock that never jumps, and returns what it got.
func drawAdmissions(t *rapid.T, l *Limit) (list admissions) {
	var s State
	now, last := drawOrigin(t, l)/2, Answer{}
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		now = max(now, drawMoment(t, l, &s, now, &last))
		st := step{at: now, op: TakeUpTo, cost: MaxQuota}
		if rapid.Bool().Draw(t, "some") {
			st = step{at: now, cost: drawCost(t, l, l.Look(&s, now).Room)}
		}
		last, _, _ = ask(t, l, &s, st)
		if last.Allowed && last.Granted > 0 {
			list.add(last.At, last.Granted)
		}
	}
	return list
}

// A counter can be gamed at the edge: the promise of a weighted window is for a stretch that is one part shorter than the
// window. In the whole of it, 199 of 100 are admitted, and no test may pretend otherwise.
func TestOverlapUpCanAlmostDouble(t *testing.T) {
	l := normal(t, Limit{Algorithm: SlidingWindow, Quota: 100, Window: minute})
	var s State
	var list admissions
	for _, st := range []struct {
		at   Micros
		cost int64
	}{{120*second - 1, 100}, {180*second - 2, 99}} {
		a, _ := l.TakeOne(&s, st.at, st.cost)
		if !a.Allowed {
			t.Fatalf("%d at %d: %+v", st.cost, st.at, a)
		}
		list.add(a.At, st.cost)
	}
	if most := list.most(l.Window); most != 199 {
		t.Errorf("%d in one window, want 199", most)
	}
}
