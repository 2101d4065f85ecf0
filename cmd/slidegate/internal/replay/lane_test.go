package replay

import (
	"slices"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/statecode"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests check that a lane decides as the rule does, and keeps the same state.

func TestLaneDecidesAsTheRule(t *testing.T) {
	property(t, 1_000, func(t *rapid.T) {
		limit := drawLimit(t, "")
		checkLane(t, limit, drawTraffic(t, limit.Window, 60, jumping))
	})
}

func checkLane(t *rapid.T, limit slidegate.Limit, reqs []testRequest) {
	t.Helper()
	want := decideAll(t, []slidegate.Limit{limit}, reqs)
	requests, _ := numbered(reqs)
	l := newLane(rulesOf(t, []slidegate.Limit{limit})[0])
	for i, q := range requests {
		if got := l.take(q.key, q.at, q.cost); got != want[i].answers[0] {
			t.Fatalf("%v: request %d, %+v:\n%+v, want\n%+v", limit, i, reqs[i], got, want[i].answers[0])
		}
		checkLaneState(t, &l, q.key, &want[i].states[0])
	}
}

// The limits of the valid ranges: large quotas, costs and windows, times at the epoch and at the latest time.
func TestLaneDecidesAsTheRuleWithLargeNumbers(t *testing.T) {
	property(t, 1_000, func(t *rapid.T) {
		limit := drawLimit(t, "")
		limit.Burst = 0
		if limit.Algorithm != slidegate.SlidingLog {
			limit.Quota = rapid.SampledFrom([]int64{1 << 20, 1 << 52, rule.MaxQuota}).Draw(t, "large quota")
		}
		r := rulesOf(t, []slidegate.Limit{limit})[0]
		l, state := newLane(r), rule.State{}
		now := rapid.SampledFrom([]rule.Micros{1, rule.MaxNow - 10*r.Window}).Draw(t, "from")
		for range rapid.IntRange(1, 40).Draw(t, "requests") {
			now = min(max(1, now+drawStep(t, r.Window, now, jumping)), rule.MaxNow)
			room := r.Capacity() - r.Used(&state, now)
			cost := max(0, rapid.SampledFrom([]int64{1, room, room + 1, r.Quota / 2, r.Quota, r.Quota + 1, rule.MaxQuota}).Draw(t, "cost"))
			cost = min(cost, rule.MaxQuota)
			want, _ := r.TakeOne(&state, now, cost)
			if got := l.take(5, now, cost); got != want {
				t.Fatalf("%v: a cost of %d at %d:\n%+v, want\n%+v", limit, cost, now, got, want)
			}
			checkLaneState(t, &l, 5, &state)
		}
	})
}

func checkLaneState(t *rapid.T, l *lane, key uint32, want *rule.State) {
	t.Helper()
	if got := l.expires(key); got != l.limit.Expires(want) {
		t.Fatalf("%+v: got a state that expires at %d, want %d", l.limit, got, l.limit.Expires(want))
	}
	got := l.borrow(key)
	defer l.restore(key)
	absent := len(want.Counts) == 0 || want.Start == rule.Absent
	switch {
	case l.limit.Algorithm == rule.DefaultAlgorithm && absent:
		if got.InParts() || !slices.Equal(statecode.Append(nil, rule.SlidingLog, got), statecode.Append(nil, rule.SlidingLog, want)) {
			t.Fatalf("%+v: got state %+v, want the log %+v", l.limit, got, want)
		}
	case l.limit.Parts() > 0 && absent:
		if len(got.Counts) > 0 && got.Start != rule.Absent {
			t.Fatalf("%+v: got state %+v, want none", l.limit, got)
		}
	case got.Start != want.Start || got.Rest != want.Rest || got.Missing != want.Missing || got.Until != want.Until || !slices.Equal(got.Counts, want.Counts) ||
		!slices.Equal(statecode.Append(nil, rule.SlidingLog, got), statecode.Append(nil, rule.SlidingLog, want)):
		t.Fatalf("%+v: got state %+v, want %+v", l.limit, got, want)
	}
}

// Several limits are decided together, as the rule does over all their states.
func TestLanesDecideTogetherAsTheRule(t *testing.T) {
	property(t, 500, func(t *rapid.T) {
		var limits []slidegate.Limit
		for _, name := range []string{"a", "b", "c", "d"}[:rapid.IntRange(2, 4).Draw(t, "limits")] {
			limits = append(limits, drawLimit(t, name))
		}
		reqs := drawTraffic(t, limits[0].Window, 60, jumping)
		want := decideAll(t, limits, reqs)
		r, err := newRun("", onlyGroup(limits), rapid.Bool().Draw(t, "exact"))
		if err != nil {
			t.Fatal(err)
		}
		requests, _ := numbered(reqs)
		for i := range requests {
			if allowed := r.decide(requests[i : i+1]); allowed != want[i].allowed || !slices.Equal(r.answers, want[i].answers) {
				t.Fatalf("%v: request %d, %+v:\n%v %+v, want\n%v %+v",
					limits, i, reqs[i], allowed, r.answers, want[i].allowed, want[i].answers)
			}
			for n := range r.groups[0].lanes {
				checkLaneState(t, &r.groups[0].lanes[n], requests[i].key, &want[i].states[n])
			}
		}
	})
}
