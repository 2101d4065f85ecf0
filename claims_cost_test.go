package slidegate_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

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
