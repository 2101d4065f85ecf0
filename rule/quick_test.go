package rule_test

import (
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// TakePair decides as TakeOne does.

// Stores call TakePair only if windows start at multiples of their length, so that a number can stand for the start; there
// it is the same for all.
func TestPairSameAsTakeOne(t *testing.T) {
	common := 0
	rule.Property(t, 6_000, func(t *rapid.T) {
		l := rule.Limit{Algorithm: rule.Algorithm(rule.OneOf(t, "algorithm", int64(rule.SlidingWindow), int64(rule.FixedWindow)))}
		if l.Algorithm == rule.SlidingWindow {
			l.Segments, l.Overlap = 1, rule.Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
		}
		l.CountRefused = rapid.IntRange(0, 7).Draw(t, "count refused") == 0
		l = rule.DrawSize(t, l)
		s := rule.DrawCounts(t, &l)
		now := rule.Clamp(s.Start+rule.Draw(t, "since", -2*l.Window, 3*l.Window), 0, rule.MaxNow)
		cost := rule.DrawCost(t, &l, l.Capacity()-l.Used(&s, now))
		if checkPair(t, &l, &s, now, cost) {
			common++
		}
	})
	if common == 0 {
		t.Error("TakePair never decided")
	}
}

func checkPair(t *rapid.T, l *rule.Limit, s *rule.State, now rule.Micros, cost int64) (common bool) {
	counts := append(slices.Clone(s.Counts), 0)
	outcome, shift, current, previous, remaining, wait, reset := quick.TakePair(l, s.Start, counts[0], counts[1], now, cost)
	if outcome == quick.Undecided {
		return false
	}
	after := s.Clone()
	a, changed := l.TakeOne(&after, now, cost)
	pair := rule.Answer{Allowed: outcome == quick.Admitted, Remaining: remaining, ResetAfter: reset, At: now}
	if pair.Allowed {
		pair.Granted, pair.NextAfter = cost, wait
	} else {
		pair.RetryAfter = wait
	}
	if a != pair {
		t.Fatalf("%+v\n%+v at %d, cost %d: TakePair answers %+v, the rule %+v", l, s, now, cost, pair, a)
	}
	next := rule.State{Start: s.Start + rule.Micros(shift)*l.Window, Counts: []int64{current, previous}[:l.Parts()]}
	if changed && !rule.SameState(&after, &next) {
		t.Fatalf("%+v\n%+v at %d, cost %d: TakePair leaves %+v, the rule %+v", l, s, now, cost, next, after)
	}
	return true
}

// quick.Bucket decides as TakeOne does.
func TestBucketSameAsTakeOne(t *testing.T) {
	decided := map[quick.Outcome]int{}
	rule.Property(t, 8_000, func(t *rapid.T) {
		l := rule.Limit{Algorithm: rule.TokenBucket, CountRefused: rapid.IntRange(0, 7).Draw(t, "count refused") == 0}
		l = rule.DrawSize(t, l)
		if rapid.Bool().Draw(t, "as users choose them") {
			l.Window = rule.OneOf(t, "window", rule.Milli, rule.Second, rule.Minute, 60*rule.Minute, 24*60*rule.Minute)
			l.Quota = rule.Draw(t, "quota", 1, int64(100_000))
			l.Burst = rule.Draw(t, "burst", 1, 2*l.Quota)
		}
		s, debt := drawDebt(t, &l)
		q := quick.NewBucket(l.Window)
		now := rule.Clamp(s.Start+rule.Draw(t, "since", -2*l.Window, 2*(s.Until-s.Start)+1), 0, rule.MaxNow)
		if rapid.Bool().Draw(t, "refilled in part") {
			now = rule.Clamp(s.Start+rule.Spread(t, "since", 0, l.Window/rule.Micros(min(int64(l.Window), l.Quota))), 0, rule.MaxNow)
		} else if rapid.IntRange(0, 7).Draw(t, "about a window ahead") == 0 {
			now = rule.Clamp(s.Start-l.Window-rule.Micros(rapid.IntRange(-1, 1).Draw(t, "beside")), 0, rule.MaxNow)
		}
		decided[checkBucket(t, &l, &q, &s, debt, now, rule.DrawCost(t, &l, l.Capacity()-l.Used(&s, now)))]++
	})
	if decided[quick.Admitted] == 0 || decided[quick.Refused] == 0 {
		t.Errorf("quick.Bucket did not decide often enough: %v", decided)
	}
}

// drawDebt returns the state of a bucket whose debt fits in a word, and the debt. It may stem from another quota and burst.
func drawDebt(t *rapid.T, l *rule.Limit) (s rule.State, debt uint64) {
	most := uint64(math.MaxInt64)
	if hi, lo := bits.Mul64(uint64(l.Burst), uint64(l.Window)); hi == 0 && lo < most/2 {
		most = oneOf64(t, "most", uint64(l.Window), lo, 2*lo, most)
	}
	debt = uint64(rule.Draw(t, "debt", 0, int64(most)))
	s.Missing, s.Rest = int64(debt)/int64(l.Window), int64(debt)%int64(l.Window)
	if s.Missing > rule.MaxQuota {
		s.Missing, s.Rest, debt = 0, 0, 0
	}
	s.Start = rule.DrawOrigin(t, l)
	full := (int64(debt)-1)/l.Quota + 1
	s.Until = s.Start + max(l.Window, min(rule.MaxWindow, rule.Micros(full)))
	if rapid.IntRange(0, 3).Draw(t, "by another quota") == 0 {
		s.Until = s.Start + rule.Draw(t, "until", l.Window, rule.MaxWindow)
	}
	return s, debt
}

func oneOf64(t *rapid.T, label string, numbers ...uint64) uint64 {
	return numbers[rapid.IntRange(0, len(numbers)-1).Draw(t, label)]
}

func checkBucket(t *rapid.T, l *rule.Limit, q *quick.Bucket, s *rule.State, debt uint64, now rule.Micros, cost int64) quick.Outcome {
	outcome, newDebt, until, remaining, wait, reset, at := q.Take(l, quick.Reciprocal(l.Quota), s.Start, s.Until, debt, now, cost)
	if outcome == quick.Undecided {
		return outcome
	}
	after := s.Clone()
	a, changed := l.TakeOne(&after, now, cost)
	got := rule.Answer{Allowed: outcome == quick.Admitted, Remaining: remaining, ResetAfter: reset, At: at}
	if got.Allowed {
		got.Granted, got.NextAfter = cost, wait
	} else {
		got.RetryAfter = wait
	}
	if a != got {
		t.Fatalf("%+v\n%+v at %d, cost %d: quick.Bucket answers %+v, the rule %+v", l, s, now, cost, got, a)
	}
	next := *s
	if got.Allowed && cost > 0 {
		next.Start, next.Until = at, until
		next.Missing, next.Rest = int64(newDebt)/int64(l.Window), int64(newDebt)%int64(l.Window)
	}
	if changed != (got.Allowed && cost > 0) || !rule.SameState(&after, &next) {
		t.Fatalf("%+v\n%+v at %d, cost %d: quick.Bucket leaves %+v, the rule %+v", l, s, now, cost, next, after)
	}
	return outcome
}

// The steps of quick.Parts give the same results as the rule.
func TestPartsSameAsRule(t *testing.T) {
	rolled := map[uint]int{}
	rule.Property(t, 8_000, func(t *rapid.T) {
		l := rule.DrawSize(t, rule.Limit{
			Algorithm: rule.SlidingWindow, Segments: rapid.IntRange(2, rule.MaxSegments).Draw(t, "segments"),
			Overlap: rule.Overlap(rapid.IntRange(0, 2).Draw(t, "overlap")), Anchor: rule.Anchor(rapid.IntRange(0, 1).Draw(t, "anchor")),
		})
		s := rule.DrawCounts(t, &l)
		if rapid.IntRange(0, 9).Draw(t, "absent") == 0 {
			clear(s.Counts)
			s.Start = rule.Absent
		}
		q := quick.NewParts(&l)
		now := rule.Clamp(max(0, s.Start)+rule.Draw(t, "since", -2*l.Window, 2*l.Window)+q.Part()*rule.Micros(rapid.IntRange(0, 3).Draw(t, "parts")), 0, rule.MaxNow)
		start, at, shift, ok := q.Roll(&l, s.Start, now)
		wantStart, wantAt, wantShift, moved := l.Rolled(&s, now)
		if ok == moved || ok && (start != wantStart || at != wantAt || shift != uint(wantShift)) {
			t.Fatalf("%+v\n%+v at %d rolls to %d, %d by %d (%t), under the rule to %d, %d by %d (%t)",
				l, s, now, start, at, shift, ok, wantStart, wantAt, wantShift, !moved)
		}
		if ok {
			rolled[min(shift, 2)]++
			checkQuickRoom(t, &l, &s, now, &q)
		}
	})
	if len(rolled) < 3 {
		t.Errorf("not all cases occurred: %v", rolled)
	}
}

func checkQuickRoom(t *rapid.T, l *rule.Limit, s *rule.State, now rule.Micros, q *quick.Parts) {
	start, at, shift, _ := l.Rolled(s, now)
	var whole, oldest int64
	ages := l.Parts() - 1 - shift // how many parts are newer than the oldest one
	if ages >= 0 {
		oldest = s.Counts[ages]
		for _, count := range s.Counts[:ages] {
			whole += count
		}
	}
	want := l.Quota - l.Used(s, now)
	if room := q.Room(l, whole, oldest, start+q.Part()-at); room != want {
		t.Fatalf("%+v\n%+v at %d: room for %d, under the rule for %d", l, s, now, room, want)
	}
	n := rule.DrawCost(t, l, want)
	if n <= want || n > l.Quota || ages < 0 {
		return
	}
	room := l.Quota - n - whole
	free, ok := q.FreeAt(l, start, oldest, room)
	for ; !ok && ages > 0; free, ok = q.FreeAt(l, start, s.Counts[ages], room) {
		ages--
		start, room = start+q.Part(), room+s.Counts[ages]
	}
	if !ok {
		free = start + q.Part()
	}
	if want := l.FreeAt(s, now, n); free != want {
		t.Fatalf("%+v\n%+v at %d: %d are free at %d, under the rule at %d", l, s, now, n, free, want)
	}
}
