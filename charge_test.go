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
			t.Errorf("overdrawn key: got %+v, want a denial", d)
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
