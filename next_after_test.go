package slidegate_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// An admission that leaves nothing reports exactly when a unit is free again, with every algorithm and every method.
func TestNextAfterIsWhenAUnitIsFree(t *testing.T) {
	for _, text := range []string{
		"3/1m", "3/1m sliding-window", "300/1m", "3/1m segments=3", "3/1m overlap=whole", "3/1m fixed-window", "3/1m token-bucket", "3/day zone=Asia/Tokyo",
	} {
		limit := slidegate.MustParseLimit(text)
		overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
			for name, decide := range map[string]func(key string) (decision, error){
				"AllowN": func(key string) (decision, error) {
					return newPerLimit(t, st, limit).AllowN(t.Context(), key, limit.Quota)
				},
				"AllowUpTo": func(key string) (decision, error) {
					return newPerLimit(t, st, limit).AllowUpTo(t.Context(), key, limit.Quota+1)
				},
				"Reserve": func(key string) (decision, error) {
					_, d, err := newPerLimit(t, st, limit).Reserve(t.Context(), key, limit.Quota)
					return d, err
				},
				"For.Allow": func(key string) (decision, error) {
					return newPerCall(t, st).For(claim(limit, key, limit.Quota)).Allow(t.Context())
				},
				"Charge": func(key string) (decision, error) {
					return newPerLimit(t, st, limit).Charge(t.Context(), key, limit.Quota)
				},
			} {
				d, err := decide(name)
				if err != nil || !d.Allowed || d.Remaining != 0 || d.NextAfter <= 0 || d.RetryAfter != 0 {
					t.Errorf("%s by %s: %+v, %v, want nothing left and when there is", name, text, d, err)
					continue
				}
				peek, err := newPerLimit(t, st, limit).Peek(t.Context(), name)
				if err != nil || peek.Allowed || peek.RetryAfter != d.NextAfter || peek.NextAfter != 0 {
					t.Errorf("%s by %s: next after %v, but a peek then returns %+v, %v", name, text, d.NextAfter, peek, err)
				}
			}
		})
	}
}

func newPerLimit(t testing.TB, st store.Store, limit slidegate.Limit) *slidegate.Limiter {
	t.Helper()
	limiter, err := newPerCall(t, st).With(limit)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// Of several limits with nothing left, the one that frees a unit last decides: nothing is admitted before that.
func TestNextAfterOfSeveralLimits(t *testing.T) {
	limits := []slidegate.Limit{slidegate.PerSecond(2), slidegate.PerHour(2), slidegate.PerMinute(2)}
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		d := allow(t, newLimiter(t, st, limits...), "k", 2)
		if !d.Allowed || d.LimitName != "2/1h" || d.NextAfter != time.Hour {
			t.Errorf("got %+v, want 2/1h to decide, with NextAfter of an hour", d)
		}
	})
}

// Calendar windows begin at midnight in their zone, and RetryAfter accounts for days of 23 and 25 hours.
func TestCalendar(t *testing.T) {
	at := func(text string) slidegate.Micros {
		t.Helper()
		moment, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return slidegate.Micros(moment.UnixMicro())
	}
	for _, test := range []struct {
		limit, from string
		want        time.Duration
	}{
		{"2/day zone=Europe/Berlin", "2026-03-29T00:00:00+01:00", 23 * time.Hour},
		{"2/day zone=Europe/Berlin", "2026-10-25T00:00:00+02:00", 25 * time.Hour},
		{"2/day zone=UTC", "2026-03-29T23:00:00Z", time.Hour},
		{"2/week zone=Asia/Tokyo", "2026-11-16T00:00:00+09:00", 7 * 24 * time.Hour},
		{"2/month", "2026-02-28T12:00:00Z", 12 * time.Hour},
		{"2/month", "2028-02-28T12:00:00Z", 36 * time.Hour},
		{"2/year zone=America/New_York", "2026-12-31T23:59:59-05:00", time.Second},
	} {
		overStores(t, func(t *testing.T, st store.Store, clock *storetest.Clock) {
			clock.Advance(at(test.from) - clock.Now())
			limiter := newLimiter(t, st, slidegate.MustParseLimit(test.limit))
			allow(t, limiter, "k", 2)
			d := allow(t, limiter, "k", 1)
			if d.Allowed || d.RetryAfter != test.want {
				t.Errorf("%s at %s: %+v, want a denial with RetryAfter %v", test.limit, test.from, d, test.want)
			}
			advance(clock, d.RetryAfter-time.Microsecond)
			if d := allow(t, limiter, "k", 1); d.Allowed {
				t.Errorf("%s at %s: admitted a microsecond early", test.limit, test.from)
			}
			advance(clock, time.Microsecond)
			if d := allow(t, limiter, "k", 2); !d.Allowed {
				t.Errorf("%s at %s: %+v, want it admitted at RetryAfter", test.limit, test.from, d)
			}
		})
	}
}
