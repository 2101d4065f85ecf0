package policy

import (
	"fmt"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// A plan with a forgotten limit is a mistake, also if the same plan without that limit is known.
func TestForgottenLimitIsAMistake(t *testing.T) {
	s := newSet(t, newMemory(t), Options{}, Policy{Name: "p", Limits: []slidegate.Limit{named("", 1)}})
	for range 2 {
		if v := take(t, s, Part{Key: "ann", Cost: 1, Plan: Limits(named("a", 100))}); v.Refused {
			t.Fatalf("the plan of one limit: got %+v, want an admission", v)
		}
		if v := take(t, s, Part{Key: "ann", Cost: 1, Plan: Limits(named("a", 100), slidegate.Limit{})}); !v.Mistake() || !v.Refused {
			t.Fatalf("the plan with a limit that is zero: got %+v, want a mistake", v)
		}
	}
}

// Rules that are made for one request do not fill the memory of policies that decide together.
func TestJointsOfOneRequestAreNotRemembered(t *testing.T) {
	limits := []slidegate.Limit{named("", 1<<40)}
	s := newSet(t, newMemory(t), Options{}, Policy{Name: "a", Limits: limits}, Policy{Name: "b", Limits: limits})
	var long []slidegate.Limit
	for i := range maxPlanLimits + 1 {
		long = append(long, named(fmt.Sprint(i), 1<<40))
	}
	for i, want := range []struct {
		plan  Plan
		known int
	}{{Limits(long...), 0}, {Limits(long...), 0}, {Plan{}, 1}, {Limits(long[0]), 2}, {Limits(long[0]), 2}} {
		r := s.Begin()
		r.Add(Part{Policy: 0, Key: "ann", Cost: 1, Plan: want.plan})
		r.Add(Part{Policy: 1, Key: "ann", Cost: 1})
		var v Verdict
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
