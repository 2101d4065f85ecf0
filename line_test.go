package slidegate_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/store"
)

// counting counts the calls to a store.
type counting struct {
	store.Store
	calls atomic.Int64
}

func (c *counting) Apply(ctx context.Context, batch []store.Request) error {
	c.calls.Add(1)
	return c.Store.Apply(ctx, batch)
}

// All waiters of a key share one question to the store, which is asked when the first one can be served.
func TestWaitersShareQuestions(t *testing.T) {
	for text, ends := range map[string]time.Duration{
		"20/1s token-bucket burst=1": 9950 * time.Millisecond,
		"20/1s sliding-log":          9 * time.Second,
	} {
		inBubble(t, func(t *testing.T, inner store.Store) {
			const waiters = 200
			counted := &counting{Store: inner}
			limiter := newLimiter(t, counted, slidegate.MustParseLimit(text))
			took := timed(func() {
				var all sync.WaitGroup
				for range waiters {
					all.Go(func() { wait(t, limiter, 1) })
				}
				all.Wait()
			})
			if took != ends {
				t.Errorf("%s: all were served after %v, want %v", text, took, ends)
			}
			t.Logf("%s: %d calls for %d admissions", text, counted.calls.Load(), waiters)
			if calls := counted.calls.Load(); calls > 2*waiters {
				t.Errorf("%s: %d calls for %d admissions, want at most 2 for each", text, calls, waiters)
			}
		})
	}
}

// Who cannot be served before the deadline is told at once, with the place in line and the time.
func TestWaitersAreToldAtOnce(t *testing.T) {
	for text, want := range map[string]int{
		"20/1s token-bucket burst=1": 41, // at 0, 0.05 ... 2.0
		"20/1s sliding-log":          60, // 20 at 0, 1 and 2
	} {
		inBubble(t, func(t *testing.T, inner store.Store) {
			limiter := newLimiter(t, inner, slidegate.MustParseLimit(text))
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second+time.Millisecond)
			defer cancel()
			var served, told atomic.Int64
			var all sync.WaitGroup
			for range 200 {
				all.Go(func() {
					err := limiter.Wait(ctx, "k", 1)
					var late *slidegate.DeadlineError
					switch {
					case err == nil:
						served.Add(1)
					case !errors.As(err, &late):
						t.Errorf("%s: %v", text, err)
					case time.Since(start) != 0:
						t.Errorf("%s: told after %v, want at once", text, time.Since(start))
					case late.RetryAfter <= 2*time.Second || late.Place < 40:
						t.Errorf("%s: got place %d and %v", text, late.Place, late.RetryAfter)
					default:
						told.Add(1)
					}
				})
			}
			all.Wait()
			if served.Load() != int64(want) || told.Load() != int64(200-want) {
				t.Errorf("%s: %d served and %d told, want %d and %d", text, served.Load(), told.Load(), want, 200-want)
			}
		})
	}
}

// A large cost is served in its turn, beside callers that always want more.
func TestLargeCostIsNotStarved(t *testing.T) {
	inBubble(t, func(t *testing.T, inner store.Store) {
		limiter := newLimiter(t, inner, slidegate.MustParseLimit("20/1s token-bucket"))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for limiter.Wait(ctx, "k", 1) == nil {
				}
			})
		}
		time.Sleep(10 * time.Second)
		took := timed(func() { wait(t, limiter, 10) })
		if took > 750*time.Millisecond { // 4 before it, and its own 10 units
			t.Errorf("a cost of 10 waited for %v", took)
		}
		cancel()
		all.Wait()
	})
}

// Of two classes, which are limits of one name with different quotas, the higher goes first. The lower gets every fourth turn if its part has
// room and, though the higher one alone uses the whole limit, a turn once in four windows.
func TestLowerClassIsNotStarved(t *testing.T) {
	for _, c := range []struct {
		callers, least, most int
	}{
		{4, 10, 14},   // of the higher class always wait, so they use the limit up: 40 windows
		{0, 790, 820}, // nobody else waits: the lower class gets its part
	} {
		inBubble(t, func(t *testing.T, inner store.Store) {
			limit := slidegate.Limit{Name: "shared", Quota: 20, Window: time.Second, Algorithm: slidegate.TokenBucket, Burst: 20}
			high := newLimiter(t, inner, limit)
			limit.Burst = 12
			low := testkit.Must(high.With(limit))(t)
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			var served, first atomic.Int64
			var all sync.WaitGroup
			for range c.callers {
				all.Go(func() {
					for high.Wait(ctx, "k", 1) == nil {
						first.Add(1)
					}
				})
			}
			all.Go(func() {
				for low.Wait(ctx, "k", 1) == nil {
					served.Add(1)
				}
			})
			all.Wait()
			if n := int(served.Load()); n < c.least || n > c.most {
				t.Errorf("with %d callers of the higher class, the lower one was served %d times, want %d to %d", c.callers, n, c.least, c.most)
			}
			if n := first.Load(); c.callers > 0 && n < 600 {
				t.Errorf("the higher class got %d units of 800, want at least 600", n)
			}
		})
	}
}

// Callers who leave, at any place, free it at once.
func TestWhoLeavesFreesThePlace(t *testing.T) {
	inBubble(t, func(t *testing.T, inner store.Store) {
		const callers = 60
		limiter := newLimiter(t, inner, slidegate.MustParseLimit("1/1s token-bucket"))
		wait(t, limiter, 1)
		var all sync.WaitGroup
		start := time.Now()
		for i := range callers {
			ctx, cancel := context.WithCancel(t.Context())
			all.Go(func() {
				err := limiter.Wait(ctx, "k", 1)
				if leaves := i%3 != 2; leaves != errors.Is(err, context.Canceled) {
					t.Errorf("caller %d: %v", i, err)
				} else if want := time.Duration(i/3+1) * time.Second; !leaves && time.Since(start) != want {
					t.Errorf("caller %d was served after %v, want %v", i, time.Since(start), want)
				}
			})
			synctest.Wait()
			if i%3 != 2 {
				defer time.AfterFunc(500*time.Millisecond, cancel).Stop()
			}
			defer cancel()
		}
		all.Wait()
	})
}
