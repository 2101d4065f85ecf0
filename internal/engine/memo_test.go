package engine

import (
	"fmt"
	"testing"

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
