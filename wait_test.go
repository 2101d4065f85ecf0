package slidegate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// inBubble runs a test in virtual time, over a store that uses it.
func inBubble(t *testing.T, test func(t *testing.T, store store.Store)) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		test(t, store)
	})
}

// timed returns how much virtual time do takes.
func timed(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

func wait(t *testing.T, limiter *slidegate.Limiter, n int64) {
	t.Helper()
	if err := limiter.Wait(t.Context(), "k", n); err != nil {
		t.Fatal(err)
	}
}

// Wait takes exactly RetryAfter, with every algorithm, and takes the units.
func TestWaitTakesAsLongAsRetryAfter(t *testing.T) {
	for _, limit := range []slidegate.Limit{
		slidegate.PerMinute(10),
		{Quota: 10, Window: time.Minute, Segments: 6, Overlap: slidegate.OverlapWhole},
		{Quota: 10, Window: time.Minute, Anchor: slidegate.AnchorFirst, Overlap: slidegate.OverlapDown},
		{Quota: 10, Window: time.Minute, Algorithm: slidegate.FixedWindow},
		{Quota: 7, Window: time.Minute, Algorithm: slidegate.TokenBucket, Burst: 10},
		{Quota: 7, Window: time.Millisecond, Algorithm: slidegate.TokenBucket, Burst: 10},
		exact("", 10, time.Minute),
	} {
		t.Run(limit.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, store store.Store) {
				limiter := newLimiter(t, store, limit)
				if took := timed(func() { wait(t, limiter, 8) }); took != 0 {
					t.Errorf("a free key waited for %v, want 0", took)
				}
				time.Sleep(limit.Window / 7)
				d, err := limiter.Peek(t.Context(), "k", 9)
				if err != nil || d.Allowed || d.RetryAfter <= 0 || d.RetryAfter == slidegate.Never {
					t.Fatalf("got %+v, %v, want a refusal with a finite RetryAfter", d, err)
				}
				if took := timed(func() { wait(t, limiter, 9) }); took != d.RetryAfter {
					t.Errorf("waited for %v, RetryAfter was %v", took, d.RetryAfter)
				}
				if d := allow(t, limiter, "k", 2); d.Allowed {
					t.Errorf("what was waited for was not taken: got %+v, want refused", d)
				}
			})
		})
	}
}

func TestWaitForNever(t *testing.T) {
	inBubble(t, func(t *testing.T, store store.Store) {
		second, minute := exact("second", 5, time.Second), exact("minute", 10, time.Minute)
		limiter := newLimiter(t, store, second, minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the deadline must not hide ErrNever
		defer cancel()
		for _, ctx := range []context.Context{ctx, t.Context()} {
			took := timed(func() {
				if err := limiter.Wait(ctx, "k", 6); !errors.Is(err, slidegate.ErrNever) {
					t.Fatalf("%v, want ErrNever", err)
				}
			})
			if took != 0 {
				t.Errorf("returned after %v, want immediately", took)
			}
		}
		alone, err := limiter.With(minute)
		if err != nil {
			t.Fatal(err)
		}
		if n := used(t, alone, "k"); n != 0 {
			t.Errorf("charged %d, want 0", n)
		}
	})
}

// A wait that cannot end before the deadline does not begin: it neither sleeps nor charges, even if refusals count.
func TestWaitBeyondTheDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, store store.Store) {
		second, minute := exact("second", 5, time.Second), exact("minute", 5, time.Minute)
		minute.CountRefused = true
		full, both := newLimiter(t, store, minute), newLimiter(t, store, second, minute)
		allow(t, full, "k", 5)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second-time.Microsecond)
		defer cancel()
		took := timed(func() {
			err := both.Wait(ctx, "k", 1)
			var late *slidegate.DeadlineError
			ok := errors.As(err, &late)
			if !ok || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%v, want a *DeadlineError that is context.DeadlineExceeded", err)
			}
			if late.RetryAfter != 50*time.Second {
				t.Errorf("RetryAfter is %v, want 50s", late.RetryAfter)
			}
		})
		if took != 0 {
			t.Errorf("returned after %v, want immediately", took)
		}
		d, err := both.Peek(t.Context(), "k", 1)
		if err != nil || d.RetryAfter != 50*time.Second || d.Answers[0].Remaining != 5 {
			t.Errorf("something was charged: got %+v, %v, want RetryAfter 50s, Remaining 5", d, err)
		}
		enough, cancel := context.WithTimeout(t.Context(), 50*time.Second+time.Microsecond)
		defer cancel()
		if err := both.Wait(enough, "k", 1); err != nil {
			t.Errorf("with a microsecond more: %v", err)
		}
	})
}

func TestWaitIsCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T, store store.Store) {
		limiter := newLimiter(t, store, exact("", 5, time.Minute))
		allow(t, limiter, "k", 3)
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(7*time.Second, cancel).Stop()
		took := timed(func() {
			if err := limiter.Wait(ctx, "k", 5); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want context.Canceled", err)
			}
		})
		if took != 7*time.Second {
			t.Errorf("returned after %v, want 7s", took)
		}
		if n := used(t, limiter, "k"); n != 3 {
			t.Errorf("used %d, want 3", n)
		}
	})
}

// A caller that has gone takes nothing, even if units are free, and gets context.Canceled instead of a deadline error.
func TestWaitAfterItWasCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T, store store.Store) {
		limiter := newLimiter(t, store, exact("", 5, time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		cancel()
		for _, before := range []int64{0, 5} { // with units left, and full
			allow(t, limiter, "k", before)
			if err := limiter.Wait(ctx, "k", 1); !errors.Is(err, context.Canceled) {
				t.Errorf("with %d used: %v, want context.Canceled", before, err)
			}
			if n := used(t, limiter, "k"); n != before {
				t.Errorf("used %d, want %d", n, before)
			}
		}
	})
}

// If refusals count, requesting too early would postpone the admission again and again.
func TestWaitDoesNotPostponeItself(t *testing.T) {
	inBubble(t, func(t *testing.T, store store.Store) {
		limit := exact("strict", 2, time.Minute)
		limit.CountRefused = true
		limiter := newLimiter(t, store, exact("lenient", 100, time.Minute), limit)
		wait(t, limiter, 2)
		time.Sleep(10 * time.Second)
		if took := timed(func() { wait(t, limiter, 2) }); took != 50*time.Second {
			t.Errorf("waited for %v, want 50s", took)
		}
		if took := timed(func() { wait(t, limiter, 1) }); took != time.Minute {
			t.Errorf("waited for %v, want 1m", took)
		}
	})
}

// With several limits, a wait lasts until all of them admit.
func TestWaitForSeveral(t *testing.T) {
	inBubble(t, func(t *testing.T, store store.Store) {
		second, minute := exact("second", 1, time.Second), exact("minute", 3, time.Minute)
		for _, decide := range []func() error{
			func() error { return newLimiter(t, store, second, minute).Wait(t.Context(), "own", 1) },
			func() error {
				return newPerCall(t, store).For(claim(second, "user", 1), claim(minute, "tenant", 1)).Wait(t.Context())
			},
		} {
			for i, want := range []time.Duration{0, time.Second, time.Second, 58 * time.Second, time.Second} {
				took := timed(func() {
					if err := decide(); err != nil {
						t.Fatal(err)
					}
				})
				if took != want {
					t.Errorf("wait %d took %v, want %v", i, took, want)
				}
			}
		}
	})
}

// leastShare returns the share of the quota that an obedient client gets: the least of several clients that begin at
// different times in the window.
func leastShare(t testing.TB, limit slidegate.Limit) float64 {
	t.Helper()
	const starts = 3
	window := rule.Micros(limit.Window.Microseconds())
	least := 2.0
	for i := range rule.Micros(starts) {
		least = min(least, share(t, limit, noon+window*i/starts+i))
	}
	return least
}

// share runs a client that requests one unit at a time, and after each refusal waits for RetryAfter. It counts what is
// admitted from the end of one wait to the end of another, 24 windows later or, for small quotas, up to 500. The first
// windows, in which a burst may be free, do not count.
func share(t testing.TB, limit slidegate.Limit, begin rule.Micros) float64 {
	t.Helper()
	const before = 4
	measured := rule.Micros(max(24, min(500, 10_000/limit.Quota)))
	clock := storetest.NewClock(begin)
	limiter := newLimiter(t, newMemory(t, clock), limit)
	window := rule.Micros(limit.Window.Microseconds())
	var first rule.Micros
	var admitted int64
	for {
		d := allowOne(t, limiter, "k")
		if d.Allowed {
			admitted++
			continue
		}
		now := clock.Advance(rule.Micros(d.RetryAfter.Microseconds()))
		switch {
		case first == 0 && now >= begin+before*window:
			first, admitted = now, 0
		case first != 0 && now >= first+measured*window:
			return float64(admitted) / (float64(limit.Quota) * float64(now-first) / float64(window))
		}
	}
}

// A client that obeys RetryAfter gets the whole quota, however small it is. In parts, above 100, a unit counts up to a part longer than
// the window: of a minute 60/61 is left, and of a second 50/51.
func TestObedientClientGetsTheQuota(t *testing.T) {
	for text, least := range map[string]float64{
		"1/1s": 0.99, "2/1s": 0.99, "5/1s": 0.99, "1/1m": 0.99, "3/1m": 0.99, "60/1m": 0.99, "100/1m": 0.99, "101/1m": 0.98, "600/1m": 0.98, "600/1s": 0.98,
	} {
		if share := leastShare(t, slidegate.MustParseLimit(text)); share < least {
			t.Errorf("%s: an obedient client gets %.3f of the quota, want at least %.2f", text, share, least)
		}
	}
	if share := leastShare(t, slidegate.MustParseLimit("1/1s sliding-window")); share > 0.6 {
		t.Errorf("a sliding window of 1/1s gives %.2f of the quota, so this test measures something else", share)
	}
}

// After a burst, RetryAfter is never longer than the window.
func TestBurstWaitsNoLongerThanTheWindow(t *testing.T) {
	for start := range rule.Micros(60) {
		clock := storetest.NewClock(noon + start*1_000_001)
		limiter := newLimiter(t, newMemory(t, clock), slidegate.PerMinute(5))
		for range 5 {
			allowOne(t, limiter, "k")
		}
		if d := allowOne(t, limiter, "k"); d.Allowed || d.RetryAfter > time.Minute {
			t.Errorf("at second %d: sixth request of five: got %+v, want a refusal for at most a minute", start, d)
		}
	}
}
