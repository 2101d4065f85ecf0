package slidegate_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// A decision in a log is readable: it shows no internals, and no zero fields.
func TestDecisionInLog(t *testing.T) {
	for _, c := range []struct {
		decision slidegate.Decision
		want     string
	}{
		{slidegate.Decision{Allowed: true, LimitName: "user", Quota: 10, Remaining: 9, Granted: 1, ResetAfter: time.Minute, At: 1},
			"d.allowed=true d.limit=user d.quota=10 d.remaining=9"},
		{slidegate.Decision{LimitName: "10/1m", Quota: 10, RetryAfter: 1500 * time.Millisecond, Flags: rule.Cached | rule.FallbackLocal},
			"d.allowed=false d.limit=10/1m d.quota=10 d.remaining=0 d.retry_after=1.5s d.flags=cached|fallback-local"},
		{slidegate.Decision{LimitName: "user", Quota: 10, Remaining: 10, RetryAfter: slidegate.Never},
			"d.allowed=false d.limit=user d.quota=10 d.remaining=10 d.retry_after=never"},
	} {
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("decided", "d", c.decision)
		if _, got, _ := strings.Cut(strings.TrimSpace(out.String()), "msg=decided "); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// fallback is a layer that decides in place of a store: it marks its times. It keeps the times that it is asked for.
type fallback struct{ asked rule.Micros }

func (f *fallback) Apply(_ context.Context, batch []store.Request) error {
	for i := range batch {
		for j := range batch[i].Answers {
			batch[i].Answers[j] = rule.Answer{Allowed: true, At: answering.Mark(42, 7)}
			f.asked = batch[i].Charges[j].At
		}
		batch[i].Err = nil
	}
	return nil
}
func (*fallback) Check(*store.Limit) error { return nil }
func (*fallback) Traits() store.Traits     { return store.Traits{Name: "fallback", MaxCharges: 2} }

// The mark stays in a reservation, which needs it to return units to where they were taken, apart from the time, so that JSON
// readers with 53 bits keep both. It is not shown in a decision.
func TestFallbackMarkStaysInReservation(t *testing.T) {
	st := new(fallback)
	limiter, err := slidegate.New(st, slidegate.PerMinute(1))
	if err != nil {
		t.Fatal(err)
	}
	r, d, err := limiter.Reserve(t.Context(), "key", 1)
	if err != nil || d.At != 42 || r.Charges[0].At != 42 || r.Charges[0].By != 8 {
		t.Errorf("decided at %d, reserved %+v, %v, want the time 42 and the mark 7", d.At, r, err)
	}
	if _, err := limiter.Cancel(t.Context(), r); err != nil || st.asked != answering.Mark(42, 7) {
		t.Errorf("cancelled at %d, %v, want the marked time", st.asked, err)
	}
	for _, by := range []int{-1, answering.MaxMark + 2} {
		r.Charges[0].By = by
		if _, err := limiter.Cancel(t.Context(), r); !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("by %d: got %v, want ErrReservation", by, err)
		}
	}
}

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
				peek, err := newPerLimit(t, st, limit).Peek(t.Context(), name, 1)
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
	at := func(text string) rule.Micros {
		t.Helper()
		moment, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return rule.Micros(moment.UnixMicro())
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
				t.Errorf("%s at %s: %+v, want a refusal with RetryAfter %v", test.limit, test.from, d, test.want)
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
