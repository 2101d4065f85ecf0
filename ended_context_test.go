package slidegate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// endedContexts returns contexts that have ended before a method is called.
func endedContexts(t testing.TB) map[string]context.Context {
	canceled, cancel := context.WithCancel(context.WithValue(t.Context(), contextKey{}, "kept"))
	cancel()
	late, cancel := context.WithDeadline(context.WithValue(t.Context(), contextKey{}, "kept"), time.Unix(1, 0))
	t.Cleanup(cancel)
	return map[string]context.Context{"canceled": canceled, "past its deadline": late}
}

// contextKey is the key of a context value.
type contextKey struct{}

// remoteStore is a store with round trips. It records the last context.
type remoteStore struct {
	store.Store
	ctx context.Context
}

func (a *remoteStore) Traits() store.Traits {
	traits := a.Store.Traits()
	traits.RoundTrips = 1
	return traits
}

func (a *remoteStore) Apply(ctx context.Context, batch []store.Request) error {
	a.ctx = ctx
	return a.Store.Apply(ctx, batch)
}

// Corrections of a charge are made even if the caller has gone, with the values of its context and for a bounded time.
func TestCorrectionsOutliveTheCaller(t *testing.T) {
	limit := exact("tokens", 100, time.Minute)
	for name, test := range map[string]struct {
		correct func(ctx context.Context, l *slidegate.Limiter, r slidegate.Reservation) error
		want    int64 // units used of the 20 reserved
	}{
		"Settle down": {func(ctx context.Context, l *slidegate.Limiter, r slidegate.Reservation) error {
			return errOf(l.Settle(ctx, r, slidegate.Used{Limit: "tokens", Cost: 7}))
		}, 7},
		"Settle up": {func(ctx context.Context, l *slidegate.Limiter, r slidegate.Reservation) error {
			return errOf(l.Settle(ctx, r, slidegate.Used{Limit: "tokens", Cost: 70}))
		}, 70},
		"SettleAll": {func(ctx context.Context, l *slidegate.Limiter, r slidegate.Reservation) error {
			return errOf(l.SettleAll(ctx, r, 7))
		}, 7},
		"Cancel": {func(ctx context.Context, l *slidegate.Limiter, r slidegate.Reservation) error {
			return errOf(l.Cancel(ctx, r))
		}, 0},
		"Refund": {func(ctx context.Context, l *slidegate.Limiter, _ slidegate.Reservation) error {
			_, err := l.Refund(ctx, "k", 5)
			return err
		}, 15},
		"Charge": {func(ctx context.Context, l *slidegate.Limiter, _ slidegate.Reservation) error {
			_, err := l.Charge(ctx, "k", 5)
			return err
		}, 25},
		"For.Refund": {func(ctx context.Context, l *slidegate.Limiter, _ slidegate.Reservation) error {
			_, err := l.For(claim(limit, "k", 5)).Refund(ctx)
			return err
		}, 15},
		"For.Charge": {func(ctx context.Context, l *slidegate.Limiter, _ slidegate.Reservation) error {
			_, err := l.For(claim(limit, "k", 5)).Charge(ctx)
			return err
		}, 25},
	} {
		for ending, ctx := range endedContexts(t) {
			t.Run(name+" "+ending, func(t *testing.T) {
				overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
					far := &remoteStore{Store: st}
					limiter := newLimiter(t, far, limit)
					r := reserve(t, limiter, 20)
					if err := test.correct(ctx, limiter, r); err != nil {
						t.Fatal(err)
					}
					seen := far.ctx
					if end, ok := seen.Deadline(); !ok || time.Until(end) > store.FinishTime || seen.Value(contextKey{}) != "kept" {
						t.Errorf("the store's context has the deadline %v (%v) and the value %v", end, ok, seen.Value(contextKey{}))
					}
					if n := used(t, limiter, "k"); n != test.want {
						t.Errorf("used %d, want %d", n, test.want)
					}
				})
			})
		}
	}
}

// Nothing is taken for a caller that has gone, on any store.
func TestEndedContextTakesNothing(t *testing.T) {
	limit := exact("tokens", 100, time.Minute)
	for ending, ctx := range endedContexts(t) {
		overStores(t, func(t *testing.T, store store.Store, _ *storetest.Clock) {
			limiter := newLimiter(t, store, limit)
			allow(t, limiter, "k", 10)
			for _, verb := range append(keyVerbs(), claimVerbs(limit)...) {
				switch verb.name {
				case "Charge", "Refund", "For.Charge", "For.Refund":
					continue
				}
				if _, err := verb.call(ctx, limiter, "k", 1); !errors.Is(err, ctx.Err()) {
					t.Errorf("%s with a context that was %s: %v", verb.name, ending, err)
				}
			}
			if _, err := limiter.AllowLimit(ctx, "k", limit); !errors.Is(err, ctx.Err()) {
				t.Errorf("AllowLimit with a context that was %s: %v", ending, err)
			}
			if n := used(t, limiter, "k"); n != 10 {
				t.Errorf("used %d, want 10", n)
			}
		})
	}
}
