package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// withoutLimit returns an outcome without the limit that decided, for tests of the rest.
func withoutLimit(o Outcome) Outcome {
	o.Limit, o.Remaining = nil, 0
	return o
}

// An outcome has the limit that refused or of which the largest share is used, also beside another policy, and where the request went.
func TestOutcomeHasTheLimit(t *testing.T) {
	small, large := slidegate.Limit{Quota: 10, Window: time.Second}, slidegate.Limit{Quota: 1000, Window: time.Hour}
	for _, several := range []bool{false, true} {
		var last Outcome
		s := newSet(t, newMemory(t), Options{}, Spec{Name: "a", Limits: []slidegate.Limit{small, large}, Count: func(_ string, o Outcome) { last = o }},
			Spec{Name: "b", Limits: []slidegate.Limit{named("", 1e6)}})
		decide := func(cost int64) Outcome {
			r := s.Begin()
			defer r.End()
			r.Add(Part{Policy: 0, Key: "ann", Cost: cost, Method: "GET", Path: "/a"})
			if several {
				r.Add(Part{Policy: 1, Key: "ann", Cost: 1})
			}
			var v policy.Decision
			last = Outcome{}
			r.Decide(t.Context(), rule.Take, &v)
			return last
		}
		if o := decide(6); o.Limit == nil || o.Limit.Quota != 10 || o.Remaining != 4 || o.Refused || o.Method != "GET" || o.Path != "/a" {
			t.Errorf("several %v: got %+v, want 4 of 10 left at GET /a", several, o)
		}
		if o := decide(5); o.Limit == nil || o.Limit.Quota != 10 || o.Remaining != 4 || !o.Refused || o.Never {
			t.Errorf("several %v: got %+v, want a refusal by the limit of 10", several, o)
		}
		if o := decide(11); o.Limit == nil || o.Limit.Quota != 10 || !o.Refused || !o.Never {
			t.Errorf("several %v: got %+v, want a refusal by the limit of 10 that never ends", several, o)
		}
	}
}

// The least units left are not always the largest share used: here 940 of 1000 are, beside 45 of 50 left.
func TestOutcomeHasTheLargestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last Outcome
		s := newSet(t, newMemory(t), Options{}, Spec{Name: "a", Limits: []slidegate.Limit{{Quota: 50, Window: time.Second}, {Quota: 1000, Window: time.Hour}},
			Count: func(_ string, o Outcome) { last = o }})
		var v policy.Decision
		s.Decide(t.Context(), rule.Charge, &Part{Key: "ann", Cost: 935}, &v)
		testkit.Pass(time.Minute)
		v = policy.Decision{}
		if s.Decide(t.Context(), rule.Take, &Part{Key: "ann", Cost: 5}, &v); last.Limit == nil || last.Limit.Quota != 1000 || last.Remaining != 60 {
			t.Errorf("got %+v, want 60 of 1000 left", last)
		}
	})
}

// The share of a token bucket is of its burst.
func TestShare(t *testing.T) {
	bucket := slidegate.Limit{Algorithm: slidegate.TokenBucket, Quota: 10, Window: time.Second, Burst: 40}
	for _, c := range []struct {
		limit     slidegate.Limit
		remaining int64
		want      float64
	}{
		{slidegate.Limit{Quota: 10}, 10, 0}, {slidegate.Limit{Quota: 10}, 1, 0.9}, {slidegate.Limit{Quota: 10}, 0, 1},
		{bucket, 30, 0.25}, {bucket, 40, 0}, {slidegate.Limit{}, 0, 1}, {slidegate.Limit{Quota: 10}, 12, 0},
	} {
		if got := Share(&c.limit, c.remaining); got != c.want {
			t.Errorf("%v, %d left: got %v, want %v", c.limit, c.remaining, got, c.want)
		}
	}
}
