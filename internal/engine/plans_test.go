package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

func hourly(quota int64) []slidegate.Limit {
	return []slidegate.Limit{{Quota: quota, Window: time.Hour}}
}

// withPlans returns a policy of 2 per hour with a plan of 5 per hour and 7 per day, and a plan without limits.
func withPlans() Spec {
	pro := append(hourly(5), slidegate.Limit{Name: "day", Quota: 7, Window: 24 * time.Hour})
	return Spec{Name: "api", Limits: hourly(2), Plans: []policy.Plan{{Name: "pro", Limits: pro}, {Name: "internal", Unlimited: true}}}
}

// A plan replaces the policy's limits, keeps a key's usage of a limit that both have, and is named in verdicts.
func TestNamedPlans(t *testing.T) {
	s := newSet(t, newMemory(t), Options{}, withPlans())
	pro := Part{Key: "ann", Cost: 1, Plan: policy.Named("pro")}
	for i := range 2 {
		if v := take(t, s, Part{Key: "ann", Cost: 1}); v.Refused || v.Plan != "" {
			t.Fatalf("request %d without a plan: got %+v, want not refused, Plan \"\"", i+1, v)
		}
	}
	for i := range 3 {
		if v := take(t, s, pro); v.Refused || v.Plan != "pro" || v.Decision.Remaining != int64(2-i) {
			t.Fatalf("request %d with the plan pro: %+v, want it to include what was used without it", i+1, v)
		}
	}
	if v := take(t, s, pro); !v.Refused || v.Plan != "pro" {
		t.Errorf("the sixth request of the hour: %+v, want a refusal by pro", v)
	}
	if v := take(t, s, Part{Key: "ann", Cost: 1, Plan: policy.Named("internal")}); v.Refused || v.By != policy.ByUnlimited || v.Plan != "internal" {
		t.Errorf("a request with the plan internal: got %+v, want not refused, by unlimited, Plan \"internal\"", v)
	}
	var v policy.Decision
	s.Decide(t.Context(), rule.Reset, &Part{Key: "ann"}, &v)
	if v := take(t, s, pro); v.Refused || v.Decision.Answers[1].Remaining != 6 {
		t.Errorf("after a reset: %+v, want the day reset too", v)
	}
}

// An override for a key takes precedence over the plan of a request, and an unknown plan admits nothing.
func TestNamedPlansAndOverrides(t *testing.T) {
	p := withPlans()
	p.Overrides = []policy.Override{{Key: "bob", Limits: hourly(1)}, {Key: "eve", Unlimited: true}}
	s := newSet(t, newMemory(t), Options{}, p)
	if v := take(t, s, Part{Key: "bob", Cost: 2, Plan: policy.Named("internal")}); !v.Refused || v.Plan != "" {
		t.Errorf("bob with the plan internal: %+v, want a refusal by the override", v)
	}
	if v := take(t, s, Part{Key: "eve", Cost: 9, Plan: policy.Named("internal")}); v.Refused || v.Plan != "" {
		t.Errorf("eve with the plan internal: %+v, want an admission by the override", v)
	}
	if v := take(t, s, Part{Key: "ann", Cost: 1, Plan: policy.Named("gold")}); !v.Refused || !v.Mistake {
		t.Errorf("an unknown plan: %+v, want a mistake", v)
	}
}

// Verdicts of several policies name the plan of the one that decided.
func TestNamedPlansTogether(t *testing.T) {
	s := newSet(t, newMemory(t), Options{}, withPlans(), Spec{Name: "all", Limits: hourly(100)})
	decide := func(cost int64) (v policy.Decision) {
		r := s.Begin()
		defer r.End()
		r.Add(Part{Policy: 0, Key: "ann", Cost: cost, Plan: policy.Named("pro")})
		r.Add(Part{Policy: 1, Key: "ann", Cost: cost})
		r.Decide(t.Context(), rule.Take, &v)
		return v
	}
	if v := decide(6); !v.Refused || v.Policy != "api" || v.Plan != "pro" {
		t.Errorf("six together: %+v, want a refusal by api, plan pro", v)
	}
}

func TestWrongNamedPlans(t *testing.T) {
	limiter, err := slidegate.New(newMemory(t))
	if err != nil {
		t.Fatal(err)
	}
	for want, plans := range map[string][]policy.Plan{
		`plan "a": invalid limit`:      {{Name: "a"}},
		`plan "b": duplicate plan`:     {{Name: "b", Unlimited: true}, {Name: "b", Unlimited: true}},
		`plan "c": slidegate: invalid`: {{Name: "c", Limits: []slidegate.Limit{{Quota: -1}}}},
	} {
		if _, err := New(limiter, []Spec{{Name: "api", Limits: hourly(2), Plans: plans}}, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New returned %v, want %s", err, want)
		}
	}
}

// The policy's own limit, overrides, plans that are listed or come with the request, and rulings share the counts of a key, although
// their quotas lie on both sides of 100.
func TestCountsAreSharedAcross100(t *testing.T) {
	minute := func(quota int64) []slidegate.Limit { return []slidegate.Limit{{Quota: quota, Window: time.Minute}} }
	for _, quotas := range [][2]int64{{60, 600}, {600, 60}, {100, 101}, {60, 1 << 50}} {
		own, other := quotas[0], quotas[1]
		spec := Spec{
			Name: "p", Limits: minute(own),
			Overrides: []policy.Override{{Key: "vip", Limits: minute(other)}},
			Plans:     []policy.Plan{{Name: "pro", Limits: minute(other)}},
		}
		for name, s := range bothWays(t, spec) {
			var used int64
			step := func(way string, quota int64, part Part) {
				t.Helper()
				used++
				part.Key, part.Cost = "ann", 1
				if v := take(t, s, part); v.Refused || v.Err != nil || v.Decision.Quota != quota || v.Decision.Remaining != quota-used {
					t.Errorf("%s, %d and %d, %s: got %+v, want %d left", name, own, other, way, v, quota-used)
				}
			}
			for range 2 {
				step("own", own, Part{})
				step("listed plan", other, Part{Plan: policy.Named("pro")})
				step("plan", other+1, Part{Plan: policy.Limits(minute(other + 1)...)})
				mustRule(t, s, Ruling{Key: "ann", Limits: minute(other)})
				step("ruling", other, Part{})
				mustRule(t, s)
			}
			before := take(t, s, Part{Key: "vip", Cost: 1})
			mustRule(t, s, Ruling{Key: "vip", Limits: minute(own)})
			after := take(t, s, Part{Key: "vip", Cost: 1})
			mustRule(t, s)
			if before.Decision.Remaining != other-1 || after.Decision.Remaining != own-2 {
				t.Errorf("%s, %d and %d, override: got %+v and %+v, want %d left, and then %d", name, own, other, before, after, other-1, own-2)
			}
		}
	}
}
