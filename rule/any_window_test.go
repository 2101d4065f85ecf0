package rule

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// These tests check how much is admitted in any interval of time, which is what a limit promises, whatever requests arrive.

// admissions are the charges that were admitted, in the order of their times.
type admissions []charged

// add records an admission. One that is earlier than the previous one, in the same part, is inserted before it.
func (list *admissions) add(at Micros, units int64) {
	*list = append(*list, charged{at, units})
	for i := len(*list) - 1; i > 0 && (*list)[i].at < (*list)[i-1].at; i-- {
		(*list)[i], (*list)[i-1] = (*list)[i-1], (*list)[i]
	}
}

// largest returns the largest number of units in any half-open interval of the given length.
func (list admissions) largest(length Micros) (largest int64) {
	for i, last := range list {
		var units int64
		for _, c := range list[:i+1] {
			if c.at > last.at-length {
				units += c.units
			}
		}
		largest = max(largest, units)
	}
	return largest
}

// hardInterval returns the longest interval in which a limit never admits more than its quota; 0 if there is none.
func hardInterval(l *Limit) Micros {
	switch {
	case l.Algorithm == SlidingLog, l.Algorithm == DefaultAlgorithm, l.Algorithm == SlidingWindow && l.Overlap == OverlapWhole:
		return l.Window
	case l.Algorithm == SlidingWindow:
		return l.Window - l.part()
	}
	return 0
}

func TestNeverOverQuotaInAnyInterval(t *testing.T) {
	for _, choice := range everyChoice() {
		l := choice
		l.Window, l.Quota = MaxWindow, 1
		if l.Calendar != 0 || hardInterval(&l) == 0 {
			continue
		}
		t.Run(nameOfChoice(choice), func(t *testing.T) {
			property(t, 60, func(t *rapid.T) {
				l := drawSize(t, choice)
				list := drawAdmissions(t, &l)
				if largest := list.largest(hardInterval(&l)); largest > l.Quota {
					t.Fatalf("%+v: admitted %d in an interval of %d: %v", l, largest, hardInterval(&l), list)
				}
			})
		})
	}
}

// In any interval, a bucket admits no more than it holds plus what is refilled in the interval.
func TestBucketNeverExceedsItsRate(t *testing.T) {
	property(t, 1_000, func(t *rapid.T) {
		l := drawSize(t, Limit{Algorithm: TokenBucket, CountRefused: rapid.Bool().Draw(t, "count refused")})
		list := drawAdmissions(t, &l)
		for i := range list {
			units := new(big.Int)
			for _, c := range list[i:] {
				units.Add(units, big.NewInt(c.units))
				refilled := new(big.Int).Mul(big.NewInt(int64(c.at-list[i].at)), big.NewInt(l.Quota))
				refilled.Quo(refilled, big.NewInt(int64(l.Window)))
				if units.Cmp(refilled.Add(refilled, big.NewInt(l.Burst))) > 0 {
					t.Fatalf("%+v: %v from %d to %d, at largest %v: %v", l, units, list[i].at, c.at, refilled, list)
				}
			}
		}
	})
}

// drawAdmissions requests as much as it can get, with a clock that never jumps, and returns what was admitted.
func drawAdmissions(t *rapid.T, l *Limit) (list admissions) {
	var s State
	now, last := drawOrigin(t, l)/2, Answer{}
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		now = max(now, drawMoment(t, l, &s, now, &last))
		st := step{at: now, op: TakeUpTo, cost: MaxQuota}
		if rapid.Bool().Draw(t, "some") {
			st = step{at: now, cost: drawCost(t, l, l.viewAt(&s, now).Room)}
		}
		last, _, _ = decideStep(t, l, &s, st)
		if last.Allowed && last.Granted > 0 {
			list.add(last.At, last.Granted)
		}
	}
	return list
}

// A counter can be gamed at the edge: a weighted window keeps its promise for an interval that is one part shorter than the
// window. In a whole window, 199 of 100 are admitted, and no test may pretend otherwise.
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
			t.Fatalf("%d at %d: got %+v, want allowed", st.cost, st.at, a)
		}
		list.add(a.At, st.cost)
	}
	if largest := list.largest(l.Window); largest != 199 {
		t.Errorf("admitted %d in one window, want 199", largest)
	}
}
