package slidegate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/store"
)

// What was taken for callers that leave while the store answers, or while it takes back what others left, is given back: in the end, the
// limit is charged what was served, and who stays gets all that is left.
func TestLeaversAreChargedNothing(t *testing.T) {
	for _, text := range []string{"300/1h sliding-log", "300/1h token-bucket", "300/1h"} {
		for seed := range uint64(20) {
			inBubble(t, func(t *testing.T, inner store.Store) {
				random := rand.New(rand.NewPCG(seed, 1))
				limiter := newLimiter(t, &slow{inner}, slidegate.MustParseLimit(text))
				var served atomic.Int64
				var all sync.WaitGroup
				for range 400 {
					ctx, cancel := context.WithCancel(t.Context())
					come := time.Duration(random.Int64N(int64(time.Second)))
					stays := time.Duration(random.Int64N(int64(60 * time.Millisecond)))
					all.Go(func() {
						defer cancel()
						testkit.Delay(come)
						defer time.AfterFunc(stays, cancel).Stop()
						switch err := limiter.Wait(ctx, "k", 1); {
						case err == nil:
							served.Add(1)
						case !errors.Is(err, context.Canceled):
							t.Error(err)
						}
					})
				}
				all.Wait()
				testkit.Delay(time.Second)
				if n := used(t, limiter, "k"); n != served.Load() {
					t.Errorf("%s, seed %d: %d served, and %d charged", text, seed, served.Load(), n)
				}
			})
		}
	}
}

// What a caller would have got that leaves while the store answers is offered to the next in line as soon as it is given back, not when
// the line would have asked next.
func TestWhatLeaversGotIsForTheNext(t *testing.T) {
	for _, text := range []string{"1/1h sliding-log", "1/1h token-bucket"} {
		for name, stand := range map[string]func(*slidegate.Limiter, context.Context) error{
			"Wait": func(l *slidegate.Limiter, ctx context.Context) error { return l.Wait(ctx, "k", 1) },
			"ReserveWait": func(l *slidegate.Limiter, ctx context.Context) error {
				_, err := l.ReserveWait(ctx, "k", 1)
				return err
			},
		} {
			inBubble(t, func(t *testing.T, inner store.Store) {
				limiter := newLimiter(t, &slow{inner}, slidegate.MustParseLimit(text))
				var all sync.WaitGroup
				took := timed(func() {
					for i := range 3 {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						all.Go(func() {
							if err := stand(limiter, ctx); errors.Is(err, context.Canceled) != (i < 2) {
								t.Errorf("%s: caller %d: %v", name, i, err)
							}
						})
						synctest.Wait()
						if i < 2 {
							defer time.AfterFunc(time.Duration(3*i+5)*time.Millisecond, cancel).Stop()
						}
					}
					all.Wait()
				})
				if want := 100 * time.Millisecond; took > want {
					t.Errorf("%s, %s: the last was served after %v, want within %v", text, name, took, want)
				}
			})
		}
	}
}

// A limit whose waiters leave all the time is used as if they stayed: what one of them got goes to the next, and is not lost on the way back.
func TestLeaversWasteNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, inner store.Store) {
		limiter := newLimiter(t, &slow{inner}, slidegate.MustParseLimit("100/1s token-bucket burst=10"))
		random := rand.New(rand.NewPCG(1, 1))
		var served atomic.Int64
		var all sync.WaitGroup
		for range 4000 {
			come, stays := time.Duration(random.Int64N(int64(10*time.Second))), time.Duration(random.Int64N(int64(300*time.Millisecond)))
			all.Go(func() {
				testkit.Delay(come)
				ctx, cancel := context.WithCancel(t.Context())
				defer time.AfterFunc(stays, cancel).Stop()
				if limiter.Wait(ctx, "k", 1) == nil {
					served.Add(1)
				}
			})
		}
		all.Wait()
		testkit.Delay(time.Second) // what the last ones left is given back
		if n := served.Load(); n < 1000 || n > 1041 {
			t.Errorf("%d were served in 10s, want 1000 to 1041", n)
		}
	})
}
