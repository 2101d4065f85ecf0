package slidegate_test

import (
	"context"
	"errors"
	"github.com/slidegate/slidegate/rule"
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
	for text, want := range map[string]struct {
		ends  time.Duration
		calls int64
	}{
		"20/1s token-bucket burst=1": {9950 * time.Millisecond, 202},
		"20/1s sliding-log":          {9 * time.Second, 60},
	} {
		inBubble(t, func(t *testing.T, inner store.Store) {
			const waiters = 200
			counted := &counting{Store: inner}
			limiter := newLimiter(t, counted, slidegate.MustParseLimit(text))
			took := timed(func() {
				var all sync.WaitGroup
				for range waiters {
					all.Go(func() { wait(t, limiter, 1) })
					synctest.Wait() // those who come at the same moment, before there is a line, would ask once each
				}
				all.Wait()
			})
			if took != want.ends {
				t.Errorf("%s: all were served after %v, want %v", text, took, want.ends)
			}
			if calls := counted.calls.Load(); calls > want.calls {
				t.Errorf("%s: %d calls for %d admissions, want at most %d", text, calls, waiters, want.calls)
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

// A request under another limit of the same name, as after a reload, stands in a line of its own: those who wait do not keep it back.
func TestOtherLimitsHaveAnotherLine(t *testing.T) {
	bucket := slidegate.Limit{Name: "shared", Quota: 20, Window: time.Second, Algorithm: slidegate.TokenBucket, Burst: 20}
	smaller := bucket
	smaller.Burst = 12
	for _, c := range []struct {
		small, large slidegate.Limit
		then         time.Duration // when the small one has room again
	}{
		{exact("shared", 12, time.Second), exact("shared", 20, time.Second), time.Second},
		{smaller, bucket, 100 * time.Millisecond}, // two units are refilled: that of the other request too
	} {
		inBubble(t, func(t *testing.T, inner store.Store) {
			large := newLimiter(t, inner, c.large)
			small := testkit.Must(large.With(c.small))(t)
			if d := allow(t, small, "k", 12); !d.Allowed {
				t.Fatal(d)
			}
			var all sync.WaitGroup
			all.Go(func() {
				if took := timed(func() { wait(t, small, 1) }); took != c.then {
					t.Errorf("under %v: served after %v, want %v", c.small, took, c.then)
				}
			})
			synctest.Wait()
			if took := timed(func() { wait(t, large, 1) }); took != 0 {
				t.Errorf("under %v: served after %v, want at once", c.large, took)
			}
			all.Wait()
		})
	}
}

// Who comes before the store has answered for the first time is told as soon as it has.
func TestWaitersAreToldAfterTheFirstAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, inner store.Store) {
		limiter := newLimiter(t, &slow{inner}, slidegate.MustParseLimit("20/1s token-bucket burst=1"))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var told atomic.Int64
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				took := timed(func() {
					if err := limiter.Wait(ctx, "k", 1); errors.As(err, new(*slidegate.DeadlineError)) {
						told.Add(1)
					}
				})
				if took > 15*time.Millisecond && took < 40*time.Millisecond {
					t.Errorf("told or served after %v", took)
				}
			})
		}
		testkit.Pass(15 * time.Millisecond)
		if n := told.Load(); n < 155 {
			t.Errorf("after the first answer %d of 200 have been told, want 159", n)
		}
		all.Wait()
		testkit.Pass(time.Second) // for a question that was under way
	})
}

// slow is a store with round trips.
type slow struct{ store.Store }

func (s *slow) Traits() store.Traits {
	traits := s.Store.Traits()
	traits.RoundTrips = 1
	return traits
}

func (s *slow) Apply(ctx context.Context, batch []store.Request) error {
	testkit.Delay(10 * time.Millisecond)
	return s.Store.Apply(ctx, batch)
}

// contended is a store in which somebody else takes what the first reset returns, and between the next refusal and its arrival something
// else happens.
type contended struct {
	store.Store
	other     func() // takes what was returned
	meanwhile func()
}

func (c *contended) Apply(ctx context.Context, batch []store.Request) error {
	err := c.Store.Apply(ctx, batch)
	switch {
	case err != nil:
	case batch[0].Op == rule.Reset && c.other != nil:
		c.other()
		c.other = nil
	case batch[0].Op != rule.Reset && batch[0].Answers[0].Granted == 0 && c.other == nil && c.meanwhile != nil:
		do := c.meanwhile
		c.meanwhile = nil
		do()
	}
	return err
}

// Units that are returned while the store is asked for the first in line are not overlooked: the refusal was out of date when it came.
func TestReturnedWhileTheStoreIsAsked(t *testing.T) {
	for _, text := range []string{"1/1h token-bucket", "1/1h sliding-log", "1/1h"} {
		inBubble(t, func(t *testing.T, inner store.Store) {
			st := &contended{Store: inner}
			limiter, others := newLimiter(t, st, slidegate.MustParseLimit(text)), newLimiter(t, inner, slidegate.MustParseLimit(text))
			wait(t, limiter, 1)
			reset := func() {
				if err := limiter.Reset(t.Context(), "k"); err != nil {
					t.Error(err)
				}
			}
			st.other, st.meanwhile = func() { wait(t, others, 1) }, reset
			var waiting sync.WaitGroup
			took := timed(func() {
				waiting.Go(func() { wait(t, limiter, 1) })
				synctest.Wait()
				reset() // the first in line asks, and is refused, because another was faster
				waiting.Wait()
			})
			if took > time.Second || st.meanwhile != nil {
				t.Errorf("%s: served after %v, want at once", text, took)
			}
		})
	}
}

// Over a store with round trips, the next question is sent so that it arrives when a unit is free: nothing of the limit is lost on the way.
func TestQuestionsArriveInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, inner store.Store) {
		counted := &counting{Store: &slow{inner}} // 10ms
		limiter := newLimiter(t, counted, slidegate.MustParseLimit("20/1s token-bucket burst=1"))
		const waiters = 101
		took := timed(func() {
			var all sync.WaitGroup
			for range waiters {
				all.Go(func() { wait(t, limiter, 1) })
			}
			all.Wait()
		})
		if took > 5250*time.Millisecond {
			t.Errorf("%d waiters were served within %v, want at most a twentieth more than 5s", waiters, took)
		}
		if n := counted.calls.Load(); n > waiters+waiters/8 {
			t.Errorf("%d questions, want one for each, and one in ten that comes too early", n)
		}
	})
}
