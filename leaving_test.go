package slidegate_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// lateStore decides at once and answers later. It can lose answers, or fail before it decides.
type lateStore struct {
	store.Store
	trips int
	late  time.Duration

	mu    sync.Mutex
	loses map[rule.Op]int // how many answers to an operation are lost
	fails map[rule.Op]int // how many requests fail before they are decided
}

var errReset = errors.New("connection reset")

func (l *lateStore) Traits() store.Traits {
	traits := l.Store.Traits()
	traits.RoundTrips = l.trips
	return traits
}

func (l *lateStore) Apply(ctx context.Context, batch []store.Request) error {
	if l.next(l.fails, batch[0].Op) {
		return errReset
	}
	if err := l.Store.Apply(ctx, batch); err != nil {
		return err
	}
	if l.next(l.loses, batch[0].Op) {
		return errReset
	}
	select {
	case <-time.After(l.late):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *lateStore) next(left map[rule.Op]int, op rule.Op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	left[op]--
	return left[op] >= 0
}

// newLate returns a store with round trips that answers 5ms after it has decided.
func newLate(t testing.TB, trips int) *lateStore {
	return &lateStore{
		Store: newMemory(t, storetest.NewClock(noon)), trips: trips, late: 5 * time.Millisecond, loses: map[rule.Op]int{}, fails: map[rule.Op]int{},
	}
}

// What is reserved for a caller that leaves while the store answers is cancelled, and the caller does not wait for that.
func TestAbandonedReservationIsCancelled(t *testing.T) {
	limits := []slidegate.Limit{
		exact("tokens", 10_000, 24*time.Hour), {Name: "running", Quota: 10, Window: time.Minute, Algorithm: slidegate.InFlight},
	}
	claims := []slidegate.Claim{claim(limits[0], "k", 2000), claim(limits[1], "k", 1)}
	for name, take := range map[string]func(context.Context, *slidegate.Limiter) (slidegate.Reservation, slidegate.Decision, error){
		"Reserve": func(ctx context.Context, l *slidegate.Limiter) (slidegate.Reservation, slidegate.Decision, error) {
			return l.Reserve(ctx, "k", 2000)
		},
		"Acquire": func(ctx context.Context, l *slidegate.Limiter) (slidegate.Reservation, slidegate.Decision, error) {
			return l.Acquire(ctx, "k")
		},
		"For.Reserve": func(ctx context.Context, l *slidegate.Limiter) (slidegate.Reservation, slidegate.Decision, error) {
			return l.For(claims...).Reserve(ctx)
		},
	} {
		for _, trips := range []int{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				late := newLate(t, trips)
				late.fails[rule.Settle] = 2 // the cancellation is sent again
				limiter := newLimiter(t, late, limits...)
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
				defer cancel()
				r, d, err := take(ctx, limiter)
				if !errors.Is(err, context.DeadlineExceeded) || d.Allowed || r.ID != "" {
					t.Errorf("%s: %+v, %+v, %v, want the context's error", name, r, d, err)
				}
				if took := time.Since(begun); trips > 0 && took != 2*time.Millisecond {
					t.Errorf("%s returned after %v, want at the end of the context", name, took)
				}
				testkit.Pass(detach.MaxTime)
				late.late = 0
				if peek, err := limiter.Peek(t.Context(), "k", 1); err != nil || peek.Answers[0].Remaining != 10_000 || peek.Answers[1].Remaining != 10 {
					t.Errorf("%s with %d round trips: %+v is left, %v; want 10000 units and 10 slots", name, trips, peek.Answers, err)
				}
			})
		}
	}
}

// A caller that stays gets its reservation, and a lost answer leaves the units charged: nobody knows whether they are.
func TestReservationOfACallerThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := newLate(t, 1)
		limiter := newLimiter(t, late, exact("tokens", 100, time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		r, d, err := limiter.Reserve(ctx, "k", 20)
		cancel()
		if err != nil || !d.Allowed || r.Charges[0].Cost != 20 {
			t.Fatalf("%+v, %+v, %v, want a reservation of 20", r, d, err)
		}
		synctest.Wait()
		if n := used(t, limiter, "k"); n != 20 {
			t.Errorf("used %d, want 20: the context ended after the answer", n)
		}
		late.loses[rule.Take] = 1
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		if _, _, err = limiter.Reserve(ctx, "k", 30); !errors.Is(err, errReset) {
			t.Errorf("%v, want the store's error", err)
		}
		if n := used(t, limiter, "k"); n != 50 {
			t.Errorf("used %d, want 50: the answer was lost", n)
		}
	})
}

// A store that does not answer is not called forever for a caller that has left, and a panic reaches a caller that has not.
func TestAbandonedReservationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := newLate(t, 1)
		late.late = time.Hour
		limiter := newLimiter(t, late, exact("tokens", 100, time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			testkit.Delay(time.Second)
			cancel()
		}()
		if _, _, err := limiter.Reserve(ctx, "k", 20); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the context's error", err)
		}
		testkit.Pass(2 * detach.MaxTime) // once for the answer, and once to cancel what was taken; no goroutine may be left

		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		defer func() {
			if recover() != "broken" {
				t.Error("the store's panic did not reach the caller")
			}
		}()
		_, _, _ = newLimiter(t, panicStore{late}, exact("tokens", 100, time.Hour)).Reserve(ctx, "k", 20)
	})
}

// panicStore is a store that panics.
type panicStore struct{ store.Store }

func (panicStore) Apply(context.Context, []store.Request) error { panic("broken") }

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
					if end, ok := seen.Deadline(); !ok || time.Until(end) > detach.MaxTime || seen.Value(contextKey{}) != "kept" {
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
			if _, err := limiter.For(slidegate.Claim{Limit: limit, Key: "k"}).Allow(ctx); !errors.Is(err, ctx.Err()) {
				t.Errorf("a claim with a context that was %s: %v", ending, err)
			}
			if n := used(t, limiter, "k"); n != 10 {
				t.Errorf("used %d, want 10", n)
			}
		})
	}
}
