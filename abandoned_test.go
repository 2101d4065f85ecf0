package slidegate_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
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
				testkit.Pass(store.FinishTime)
				late.late = 0
				if peek, err := limiter.Peek(t.Context(), "k"); err != nil || peek.Answers[0].Remaining != 10_000 || peek.Answers[1].Remaining != 10 {
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
		testkit.Pass(2 * store.FinishTime) // once for the answer, and once to cancel what was taken; no goroutine may be left

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
