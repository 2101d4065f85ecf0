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

// Charge charges beyond the quota, in one request to the store, and says how things are afterwards.
func TestCharge(t *testing.T) {
	limit := exact("tokens", 10, time.Minute)
	overStores(t, func(t *testing.T, st store.Store, clock *storetest.Clock) {
		asked := &recorder{Store: st}
		limiter := newLimiter(t, asked, limit)
		perCall := newPerCall(t, asked)
		for _, test := range []struct {
			n, remaining int64
			claims       bool
		}{{4, 6, false}, {3, 3, true}, {1, 2, true}, {5, 0, false}, {7, 0, true}} {
			asked.take()
			d, err := limiter.Charge(t.Context(), "k", test.n)
			if test.claims {
				limiter.Refund(t.Context(), "k", test.n) // what the limiter itself has just charged
				asked.take()
				d, err = perCall.For(claim(limit, "k", test.n)).Charge(t.Context())
			}
			if err != nil || !d.Allowed || d.Granted != test.n || d.Remaining != test.remaining || d.LimitName != "tokens" || d.RetryAfter != 0 {
				t.Errorf("charged %d: %+v, %v, want %d remaining", test.n, d, err, test.remaining)
			}
			if asked := asked.take(); len(asked) != 1 || asked[0].Op != rule.Charge {
				t.Errorf("charging took the requests %+v", asked)
			}
		}
		if d := allow(t, limiter, "k", 1); d.Allowed {
			t.Errorf("a key that is overdrawn is admitted: %+v", d)
		}
		clock.Advance(rule.Micros(time.Minute.Microseconds()))
		if d := allow(t, limiter, "k", 1); !d.Allowed {
			t.Errorf("a window later: %+v", d)
		}
	})
}

func TestChargeRefusesCosts(t *testing.T) {
	limiter := newLimiter(t, newReference(), slidegate.PerMinute(10))
	for _, n := range []int64{0, -1, math.MinInt64, rule.MaxQuota + 1, math.MaxInt64} {
		if _, err := limiter.Charge(t.Context(), "k", n); !errors.Is(err, slidegate.ErrCost) {
			t.Errorf("charging %d: %v, want ErrCost", n, err)
		}
	}
	if n := used(t, limiter, "k"); n != 0 {
		t.Errorf("%d are used, want 0", n)
	}
}
