package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// classedSpec returns a policy with classes: an override and a plan have them too.
func classedSpec() Spec {
	return Spec{
		Name: "p", Limits: hourly(10),
		Classes:   []policy.Class{{Name: "critical", Percent: 100}, {Name: policy.DefaultClass, Percent: 90}, {Name: "batch", Percent: 60}},
		Overrides: []policy.Override{{Key: "vip", Limits: hourly(20)}, {Key: "free", Unlimited: true}},
		Plans:     []policy.Plan{{Name: "pro", Limits: hourly(1000)}},
	}
}

// Each class is refused once all of them have used its part, whichever limits apply to the key.
func TestClassesShareCounts(t *testing.T) {
	for name, s := range bothWays(t, classedSpec()) {
		for _, step := range []struct {
			class   string
			plan    policy.Plan
			key     string
			cost    int64
			refused bool
			left    int64
			named   string
		}{
			{"batch", policy.Plan{}, "ann", 6, false, 0, "batch"},
			{"batch", policy.Plan{}, "ann", 1, true, 0, "batch"},
			{"", policy.Plan{}, "ann", 2, false, 1, "default"},
			{"no such class", policy.Plan{}, "ann", 2, true, 1, "default"},
			{"critical", policy.Plan{}, "ann", 2, false, 0, "critical"},
			{"critical", policy.Plan{}, "ann", 1, true, 0, "critical"},
			{"batch", policy.Named("pro"), "ann", 1, false, 589, "batch"}, // 600 of 1000, of which 11 are used
			{"default", policy.Limits(hourly(20)...), "ann", 1, false, 6, "default"},
			{"batch", policy.Plan{}, "vip", 12, false, 0, "batch"},
			{"critical", policy.Plan{}, "vip", 8, false, 0, "critical"},
			{"batch", policy.Plan{}, "free", 99, false, 0, ""},
		} {
			v := take(t, s, Part{Key: step.key, Cost: step.cost, Class: step.class, Plan: step.plan})
			if v.Err != nil || v.Refused != step.refused || v.Decision.Remaining != step.left || v.Class != step.named {
				t.Errorf("%s: %+v: got %+v", name, step, v)
			}
		}
		mustRule(t, s, Ruling{Key: "ann", Limits: hourly(40)})
		if v := take(t, s, Part{Key: "ann", Cost: 1, Class: "batch"}); v.Refused || v.Quota != 24 || v.Remaining != 11 || v.Class != "batch" {
			t.Errorf("%s: batch under a ruling of 40: got %+v, want 11 of 24 left", name, v)
		}
		var reset policy.Decision
		s.Decide(t.Context(), rule.Reset, &Part{Key: "ann", Class: "batch"}, &reset)
		mustRule(t, s)
		if v := take(t, s, Part{Key: "ann", Cost: 1, Class: "critical"}); v.Refused || v.Remaining != 9 {
			t.Errorf("%s: after a reset: got %+v, want 9 left", name, v)
		}
	}
}

// Policies that decide together have the classes of their parts, and a transaction holds slots of a class.
func TestClassesTogether(t *testing.T) {
	one, two := classedSpec(), classedSpec()
	one.Name, two.Name, two.Limits = "one", "two", append(slots(5), hourly(10)...)
	two.Overrides, two.Plans = nil, nil
	s := newSet(t, newMemory(t), Options{}, one, two)
	admitted := 0
	for range 9 {
		r := s.Begin()
		r.Record, r.Slots = true, SlotsHeld
		r.Add(Part{Policy: 0, Key: "ann", Cost: 1, Class: "critical"})
		r.Add(Part{Policy: 1, Key: "ann", Cost: 1, Class: "batch"})
		var v policy.Decision
		r.Decide(t.Context(), rule.Take, &v)
		if !v.Refused {
			admitted++
			defer r.End()
			continue
		}
		if v.Policy != "two" || v.Class != "batch" || v.Quota != 3 {
			t.Errorf("got %+v, want a refusal by the 3 slots of batch", v)
		}
		r.End()
	}
	if admitted != 3 {
		t.Errorf("admitted %d, want the 3 slots that batch has of 5", admitted)
	}
}

func TestWrongClasses(t *testing.T) {
	plain := policy.Class{Name: policy.DefaultClass, Percent: 90}
	for want, change := range map[string]func(*Spec){
		"no class is named":            func(s *Spec) { s.Classes = []policy.Class{{Name: "a", Percent: 1}} },
		"has no name":                  func(s *Spec) { s.Classes = []policy.Class{plain, {Percent: 5}} },
		"1 to 100 percent, not 0":      func(s *Spec) { s.Classes = []policy.Class{plain, {Name: "a"}} },
		"1 to 100 percent, not 101":    func(s *Spec) { s.Classes = []policy.Class{plain, {Name: "a", Percent: 101}} },
		"duplicate":                    func(s *Spec) { s.Classes = []policy.Class{plain, plain} },
		"limits: invalid limit: lease": func(s *Spec) { s.Limits[0].Lease = true },
		"plans: plan \"pro\": invalid": func(s *Spec) { s.Plans[0].Limits[0].CountRefused = true },
		"penalty: a refusal of one":    func(s *Spec) { s.Penalty = time.Minute },
	} {
		spec := classedSpec()
		change(&spec)
		_, err := NewOver(newMemory(t), []Spec{spec}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	s := newSet(t, newMemory(t), Options{}, classedSpec())
	leased := slidegate.Limit{Quota: 5, Window: time.Hour, Lease: true}
	if v := take(t, s, Part{Key: "ann", Cost: 1, Plan: policy.Limits(leased)}); !v.Mistake {
		t.Errorf("a plan with a lease: got %+v, want a mistake", v)
	}
	if err := s.CheckRuling(0, Ruling{Key: "ann", Limits: []slidegate.Limit{leased}}); err == nil {
		t.Error("a ruling with a lease: got no error")
	}
}
