package engine

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// Under several policies, a request waits as long as the one that refuses allows, not as long as any of them.
func TestTheOneThatRefusesSaysHowLong(t *testing.T) {
	for name, c := range map[string]struct {
		patient, hasty string // limits of policies with a wait of 10s and of 2s
		at             time.Duration
		allowed        bool
		took, retry    time.Duration
	}{
		"the patient one refuses":                 {"1/5s token-bucket", "9/5s token-bucket", 0, true, 5 * time.Second, 0},
		"the hasty one refuses":                   {"9/5s token-bucket", "1/5s token-bucket", 0, false, 0, 5 * time.Second},
		"the hasty one refuses, for a short time": {"9/5s token-bucket", "1/5s token-bucket", 3500 * time.Millisecond, true, 1500 * time.Millisecond, 0},
		"both refuse, the patient one longer":     {"1/6s token-bucket", "1/4s token-bucket", 0, false, 0, 6 * time.Second},
		"slots of the patient one":                {"1 in-flight ttl=1m", "9/5s token-bucket", 0, true, 4 * time.Second, 0},
		"slots of the hasty one":                  {"9/5s token-bucket", "1 in-flight ttl=1m", 0, false, 2 * time.Second, 58 * time.Second},
		"slots of the hasty one, soon":            {"9/5s token-bucket", "1 in-flight ttl=1m", 2500 * time.Millisecond, true, 1500 * time.Millisecond, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSet(t, newMemory(t), Options{},
				Spec{Name: "patient", Wait: 10 * time.Second, Limits: []slidegate.Limit{slidegate.MustParseLimit(c.patient)}},
				Spec{Name: "hasty", Wait: 2 * time.Second, Limits: []slidegate.Limit{slidegate.MustParseLimit(c.hasty)}})
			request := func(holds time.Duration) (d policy.Decision) {
				q := s.Begin()
				defer q.End()
				q.Slots = SlotsHeld
				q.Add(Part{Policy: 0, Key: "k", Cost: 1})
				q.Add(Part{Policy: 1, Key: "k", Cost: 1})
				q.Decide(t.Context(), rule.Take, &d)
				testkit.Delay(holds)
				return d
			}
			var first sync.WaitGroup
			defer first.Wait()
			first.Go(func() { request(4 * time.Second) })
			synctest.Wait()
			testkit.Delay(c.at)
			began := time.Now()
			if d := request(0); d.Allowed != c.allowed || time.Since(began) != c.took || d.RetryAfter != c.retry {
				t.Errorf("%s: allowed is %v after %v, with %v to wait; want %v after %v, with %v",
					name, d.Allowed, time.Since(began), d.RetryAfter, c.allowed, c.took, c.retry)
			}
		})
	}
}
