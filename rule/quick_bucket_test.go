package rule

import (
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// QuickBucket decides as TakeOne does.
func TestQuickBucketSameAsTakeOne(t *testing.T) {
	decided := map[Verdict]int{}
	property(t, 8_000, func(t *rapid.T) {
		l := Limit{Algorithm: TokenBucket, CountDenied: rapid.IntRange(0, 7).Draw(t, "count denied") == 0}
		l = drawSize(t, l)
		if rapid.Bool().Draw(t, "as users choose them") {
			l.Window = oneOf(t, "window", milli, second, minute, 60*minute, 24*60*minute)
			l.Quota = draw(t, "quota", 1, int64(100_000))
			l.Burst = draw(t, "burst", 1, 2*l.Quota)
		}
		s, debt := drawDebt(t, &l)
		q := NewQuickBucket(l.Window)
		now := clamp(s.Start+draw(t, "since", -2*l.Window, 2*(s.Until-s.Start)+1), 0, MaxNow)
		if rapid.Bool().Draw(t, "refilled in part") {
			now = clamp(s.Start+spread(t, "since", 0, l.Window/Micros(min(int64(l.Window), l.Quota))), 0, MaxNow)
		} else if rapid.IntRange(0, 7).Draw(t, "about a window ahead") == 0 {
			now = clamp(s.Start-l.Window-Micros(rapid.IntRange(-1, 1).Draw(t, "beside")), 0, MaxNow)
		}
		decided[checkQuickBucket(t, &l, &q, &s, debt, now, drawCost(t, &l, l.View(&s, now).Room))]++
	})
	if decided[Admitted] == 0 || decided[Refused] == 0 {
		t.Errorf("QuickBucket did not decide often enough: %v", decided)
	}
}

// drawDebt returns the state of a bucket whose debt fits in a word, and the debt. It may stem from another quota and burst.
func drawDebt(t *rapid.T, l *Limit) (s State, debt uint64) {
	most := uint64(math.MaxInt64)
	if hi, lo := bits.Mul64(uint64(l.Burst), uint64(l.Window)); hi == 0 && lo < most/2 {
		most = oneOf64(t, "most", uint64(l.Window), lo, 2*lo, most)
	}
	debt = uint64(draw(t, "debt", 0, int64(most)))
	s.Missing, s.Rest = wide{0, debt}.over(int64(l.Window))
	if s.Missing > MaxQuota {
		s.Missing, s.Rest, debt = 0, 0, 0
	}
	s.Start = drawOrigin(t, l)
	full := wide{0, debt}.overUp(l.Quota)
	s.Until = s.Start + max(l.Window, min(MaxWindow, Micros(full)))
	if rapid.IntRange(0, 3).Draw(t, "by another quota") == 0 {
		s.Until = s.Start + draw(t, "until", l.Window, MaxWindow)
	}
	return s, debt
}

func oneOf64(t *rapid.T, label string, numbers ...uint64) uint64 {
	return numbers[rapid.IntRange(0, len(numbers)-1).Draw(t, label)]
}

func checkQuickBucket(t tb, l *Limit, q *QuickBucket, s *State, debt uint64, now Micros, cost int64) Verdict {
	verdict, newDebt, until, remaining, wait, reset, at := q.Take(l, Reciprocal(l.Quota), s.Start, s.Until, debt, now, cost)
	if verdict == Undecided {
		return verdict
	}
	after := s.Clone()
	a, changed := l.TakeOne(&after, now, cost)
	quick := Answer{Allowed: verdict == Admitted, Remaining: remaining, ResetAfter: reset, At: at}
	if quick.Allowed {
		quick.Granted, quick.NextAfter = cost, wait
	} else {
		quick.RetryAfter = wait
	}
	if a != quick {
		t.Fatalf("%+v\n%+v at %d, cost %d: QuickBucket answers %+v, the rule %+v", l, s, now, cost, quick, a)
	}
	next := *s
	if quick.Allowed && cost > 0 {
		next.Start, next.Until = at, until
		next.Missing, next.Rest = wide{0, newDebt}.over(int64(l.Window))
	}
	if changed != (quick.Allowed && cost > 0) || !sameState(&after, &next) {
		t.Fatalf("%+v\n%+v at %d, cost %d: QuickBucket leaves %+v, the rule %+v", l, s, now, cost, next, after)
	}
	return verdict
}

// Multiplication by the reciprocal gives the same result as division, at the edges of quotients and of the range.
func TestDivisorSameAsDivision(t *testing.T) {
	property(t, 20_000, func(t *rapid.T) {
		by := draw(t, "by", 1, int64(math.MaxInt64))
		d := newDivisor(by)
		x := rapid.Uint64().Draw(t, "x")
		if rapid.Bool().Draw(t, "next to a multiple") {
			x = x/uint64(by)*uint64(by) + uint64(rapid.IntRange(-1, 1).Draw(t, "beside"))
		}
		up := x / uint64(by)
		if x%uint64(by) > 0 {
			up++
		}
		if d.over(x) != x/uint64(by) || d.overUp(x) != up {
			t.Fatalf("%d / %d: want %d, rounded up %d, got %d and %d", x, by, x/uint64(by), up, d.over(x), d.overUp(x))
		}
	})
}
