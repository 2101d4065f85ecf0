package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// A plan with a zero limit is a mistake, even if the same plan without that limit is known.
func TestForgottenLimitIsAMistake(t *testing.T) {
	s := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: []slidegate.Limit{named("", 1)}})
	for range 2 {
		if v := take(t, s, Part{Key: "ann", Cost: 1, Plan: policy.Limits(named("a", 100))}); v.Refused {
			t.Fatalf("the plan of one limit: got %+v, want an admission", v)
		}
		if v := take(t, s, Part{Key: "ann", Cost: 1, Plan: policy.Limits(named("a", 100), slidegate.Limit{})}); !v.Mistake || !v.Refused {
			t.Fatalf("the plan with a limit that is zero: got %+v, want a mistake", v)
		}
	}
}

// Rules that are made for one request do not fill the memory for policies that decide together.
func TestJointsOfOneRequestAreNotRemembered(t *testing.T) {
	limits := []slidegate.Limit{named("", 1<<40)}
	s := newSet(t, newMemory(t), Options{}, Spec{Name: "a", Limits: limits}, Spec{Name: "b", Limits: limits})
	var long []slidegate.Limit
	for i := range maxPlanLimits + 1 {
		long = append(long, named(fmt.Sprint(i), 1<<40))
	}
	for i, want := range []struct {
		plan  policy.Plan
		known int
	}{{policy.Limits(long...), 0}, {policy.Limits(long...), 0}, {policy.Plan{}, 1}, {policy.Limits(long[0]), 2}, {policy.Limits(long[0]), 2}} {
		r := s.Begin()
		r.Add(Part{Policy: 0, Key: "ann", Cost: 1, Plan: want.plan})
		r.Add(Part{Policy: 1, Key: "ann", Cost: 1})
		var v policy.Decision
		r.Decide(t.Context(), rule.Take, &v)
		r.End()
		known := 0
		if all := s.joints.known.Load(); all != nil {
			known = len(*all)
		}
		if v.Refused || known != want.known {
			t.Errorf("request %d: %d joints are remembered, want %d; the verdict is %+v", i, known, want.known, v)
		}
	}
}

// A plan too large for the sliding log of the policy's own limit uses its own algorithm, and keeps its label as
// written.
func TestPlanTooLargeForALog(t *testing.T) {
	minute := func(quota int64) slidegate.Limit { return slidegate.Limit{Quota: quota, Window: time.Minute} }
	hour := slidegate.Limit{Name: "hour", Quota: 60, Window: time.Hour}
	pro := hour
	pro.Quota = 600
	for name, s := range bothWays(t, Spec{Name: "p", Limits: []slidegate.Limit{minute(60), hour}}) {
		large := Part{Key: "ann", Cost: 1, Plan: policy.Limits(minute(20_000), pro)}
		for i := range 2 {
			v := take(t, s, large)
			if v.Refused || v.Err != nil || v.Decision.Answers[0].Remaining != int64(19_999-i) || v.Limits[0].Algorithm != rule.DefaultAlgorithm {
				t.Errorf("%s: request %d: got %+v, want an admission by a limit of 20,000", name, i, v)
			}
		}
		r, err := s.policies[0].planBundle(large.Plan.Limits)
		if err != nil || r.bound[0].Rule().Algorithm != slidegate.SlidingWindow || r.bound[1].Rule().Algorithm != slidegate.SlidingLog || !r.lasts {
			t.Errorf("%s: got %+v, %v; want a sliding window and, as in the policy, a sliding log", name, r, err)
		}
		if v := take(t, s, Part{Key: "ann", Cost: 1}); v.Decision.Answers[0].Remaining != 59 || v.Decision.Answers[1].Remaining != 57 {
			t.Errorf("%s: the policy's own limits: got %+v, want separate counts for the minute, and shared counts for the hour", name, v)
		}
		wrong := slidegate.Limit{Quota: 20_000, Window: time.Minute, Algorithm: slidegate.SlidingLog}
		if v := take(t, s, Part{Key: "ann", Cost: 1, Plan: policy.Limits(wrong)}); !v.Refused || !v.Mistake {
			t.Errorf("%s: a log of 20,000 by name: got %+v, want a mistake", name, v)
		}
	}
}
