package slidegate_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// Charge charges beyond the quota, in one request to the store, and returns the state afterwards.
func TestCharge(t *testing.T) {
	limit := exact("tokens", 10, time.Minute)
	overStores(t, func(t *testing.T, st store.Store, clock *storetest.Clock) {
		recorded := &recorder{Store: st}
		limiter := newLimiter(t, recorded, limit)
		perCall := newPerCall(t, recorded)
		for _, test := range []struct {
			n, remaining int64
			claims       bool
		}{{4, 6, false}, {3, 3, true}, {1, 2, true}, {5, 0, false}, {7, 0, true}} {
			recorded.take()
			d, err := limiter.Charge(t.Context(), "k", test.n)
			if test.claims {
				limiter.Refund(t.Context(), "k", test.n) // return what the previous step charged
				recorded.take()
				d, err = perCall.For(claim(limit, "k", test.n)).Charge(t.Context())
			}
			if err != nil || !d.Allowed || d.Granted != test.n || d.Remaining != test.remaining || d.LimitName != "tokens" || d.RetryAfter != 0 {
				t.Errorf("charged %d: %+v, %v, want %d remaining", test.n, d, err, test.remaining)
			}
			if recorded := recorded.take(); len(recorded) != 1 || recorded[0].Op != rule.Charge {
				t.Errorf("charging sent the requests %+v", recorded)
			}
		}
		if d := allow(t, limiter, "k", 1); d.Allowed {
			t.Errorf("overdrawn key: got %+v, want a refusal", d)
		}
		clock.Advance(rule.Micros(time.Minute.Microseconds()))
		if d := allow(t, limiter, "k", 1); !d.Allowed {
			t.Errorf("a window later: got %+v, want allowed", d)
		}
	})
}

func TestChargeRejectsInvalidCosts(t *testing.T) {
	limiter := newLimiter(t, newReference(), slidegate.PerMinute(10))
	for _, n := range []int64{0, -1, math.MinInt64, rule.MaxQuota + 1, math.MaxInt64} {
		if _, err := limiter.Charge(t.Context(), "k", n); !errors.Is(err, slidegate.ErrCost) {
			t.Errorf("charging %d: %v, want ErrCost", n, err)
		}
	}
	if n := used(t, limiter, "k"); n != 0 {
		t.Errorf("used %d, want 0", n)
	}
}

// A claim without a cost claims one unit with every verb: as a peek it would limit nothing.
func TestClaimWithoutCostIsOneUnit(t *testing.T) {
	limits := []slidegate.Limit{exact("user", 5, time.Minute), exact("tenant", 8, time.Hour)}
	overStores(t, func(t *testing.T, store store.Store, _ *storetest.Clock) {
		limiter := newPerCall(t, store)
		for _, limits := range [][]slidegate.Limit{limits[:1], limits} {
			for i, verb := range claimVerbs(limits...) {
				without, with := "without"+verb.name, "with"+verb.name
				for _, key := range []string{without, with} {
					for _, limit := range limits { // so that there is something to refund and to reset
						if _, err := limiter.For(claim(limit, key, 3)).Allow(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				got, err := verb.call(t.Context(), limiter, without, 0)
				if err != nil {
					t.Errorf("%s: %v", verb.name, err)
				}
				want, err := verb.call(t.Context(), limiter, with, 1)
				if err != nil || got.Granted != want.Granted || got.Remaining != want.Remaining || got.Allowed != want.Allowed {
					t.Errorf("%s, claim %d without a cost: %+v, want %+v, %v", verb.name, i, got, want, err)
				}
				for _, limit := range limits {
					if got, want := usedOf(t, limiter, limit, without), usedOf(t, limiter, limit, with); got != want {
						t.Errorf("%s without a cost: used %d of %v, want %d", verb.name, got, limit, want)
					}
				}
			}
		}
	})
}

// usedOf returns how much of a limit's quota a key has used.
func usedOf(t testing.TB, limiter *slidegate.Limiter, limit slidegate.Limit, key string) int64 {
	t.Helper()
	d, err := limiter.For(claim(limit, key, 1)).Peek(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d.Quota - d.Remaining
}
