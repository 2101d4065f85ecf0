package slidegate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// A verb is a method of a limiter, in a form common to all of them. Verbs without a cost argument use one unit, whatever n
// is.
type verb struct {
	name string
	call func(ctx context.Context, l *slidegate.Limiter, key string, n int64) (slidegate.Decision, error)
	free bool // it has no cost argument
}

type decision = slidegate.Decision

// keyVerbs are the methods that use the limiter's own limits.
func keyVerbs() []verb {
	type limiter = *slidegate.Limiter
	return []verb{
		{"Allow", func(ctx context.Context, l limiter, key string, _ int64) (decision, error) {
			return l.Allow(ctx, key)
		}, true},
		{"AllowN", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			return l.AllowN(ctx, key, n)
		}, false},
		{"AllowInto", func(ctx context.Context, l limiter, key string, n int64) (d decision, err error) {
			err = l.AllowInto(ctx, key, n, &d)
			return d, err
		}, false},
		{"AllowUpTo", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			return l.AllowUpTo(ctx, key, n)
		}, false},
		{"Peek", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			return l.Peek(ctx, key, n)
		}, false},
		{"Wait", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			return decision{}, l.Wait(ctx, key, n)
		}, false},
		{"Reserve", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			_, d, err := l.Reserve(ctx, key, n)
			return d, err
		}, false},
		{"Acquire", func(ctx context.Context, l limiter, key string, _ int64) (decision, error) {
			_, d, err := l.Acquire(ctx, key)
			return d, err
		}, true},
		{"Charge", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			return l.Charge(ctx, key, n)
		}, false},
		{"Refund", func(ctx context.Context, l limiter, key string, n int64) (decision, error) {
			return l.Refund(ctx, key, n)
		}, false},
		{"Reset", func(ctx context.Context, l limiter, key string, _ int64) (decision, error) {
			return decision{}, l.Reset(ctx, key)
		}, true},
	}
}

// claimVerbs are the methods that use limits given with the request.
func claimVerbs(limits ...slidegate.Limit) []verb {
	one := func(name string, decide func(ctx context.Context, c slidegate.Claims) (decision, error)) verb {
		return verb{name: "For." + name, call: func(ctx context.Context, l *slidegate.Limiter, key string, n int64) (decision, error) {
			var claims []slidegate.Claim
			for _, limit := range limits {
				claims = append(claims, slidegate.Claim{Limit: limit, Key: key, Cost: n})
			}
			return decide(ctx, l.For(claims...))
		}}
	}
	return []verb{
		one("Allow", func(ctx context.Context, c slidegate.Claims) (decision, error) { return c.Allow(ctx) }),
		one("AllowUpTo", func(ctx context.Context, c slidegate.Claims) (decision, error) { return c.AllowUpTo(ctx) }),
		one("Peek", func(ctx context.Context, c slidegate.Claims) (decision, error) { return c.Peek(ctx) }),
		one("Wait", func(ctx context.Context, c slidegate.Claims) (decision, error) { return decision{}, c.Wait(ctx) }),
		one("Reserve", func(ctx context.Context, c slidegate.Claims) (decision, error) {
			_, d, err := c.Reserve(ctx)
			return d, err
		}),
		one("Charge", func(ctx context.Context, c slidegate.Claims) (decision, error) { return c.Charge(ctx) }),
		one("Refund", func(ctx context.Context, c slidegate.Claims) (decision, error) { return c.Refund(ctx) }),
		one("Reset", func(ctx context.Context, c slidegate.Claims) (decision, error) { return decision{}, c.Reset(ctx) }),
	}
}

// A store that can decide a single charge without a batch makes the same decisions either way, in every field.
func TestSameDecisionsWithAndWithoutBatch(t *testing.T) {
	const seed = 1
	limits := []slidegate.Limit{
		slidegate.PerSecond(7),
		{Name: "refused", Quota: 7, Window: time.Second, CountRefused: true},
		{Quota: 7, Window: time.Second, Segments: 5, Overlap: slidegate.OverlapWhole},
		{Quota: 7, Window: time.Second, Algorithm: slidegate.FixedWindow, Anchor: slidegate.AnchorFirst},
		{Quota: 7, Window: time.Second, Algorithm: slidegate.TokenBucket, Burst: 9},
		exact("", 7, time.Second),
	}
	for _, limit := range limits {
		t.Run(limit.String(), func(t *testing.T) {
			clock := storetest.NewClock(noon)
			makers := map[string]func() store.Store{
				"reference": func() store.Store { return storetest.NewReference(clock) },
				"memory":    func() store.Store { return newMemory(t, clock) },
			}
			for name, newStore := range makers {
				if _, ok := newStore().(store.SingleTaker); !ok {
					t.Fatalf("%s is not a SingleTaker", name)
				}
				one, batch := newLimiter(t, newStore(), limit), newLimiter(t, batchOnly{newStore()}, limit)
				random := rand.New(rand.NewPCG(seed, 0))
				for i := range 2000 {
					clock.Advance(rule.Micros(random.Int64N(300_000)) - 20_000)
					key, n := fmt.Sprint(random.IntN(3)), random.Int64N(11)
					got, want := allow(t, one, key, n), allow(t, batch, key, n)
					if n == 1 {
						got, want = allowOne(t, one, key), allowOne(t, batch, key)
					}
					if !reflect.DeepEqual(got, want) {
						t.Fatalf("%s, seed %d, request %d for %d:\n one   %+v\n batch %+v", name, seed, i, n, got, want)
					}
				}
			}
		})
	}
}

func allowOne(t testing.TB, limiter *slidegate.Limiter, key string) slidegate.Decision {
	t.Helper()
	d, err := limiter.Allow(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The most common request does not allocate.
func TestAllowDoesNotAllocate(t *testing.T) {
	limiter := newLimiter(t, newMemory(t, storetest.NewClock(noon)), slidegate.PerMinute(10))
	ctx := t.Context()
	allowOne(t, limiter, "k")
	if n := testing.AllocsPerRun(100, func() { _, _ = limiter.Allow(ctx, "k") }); n != 0 {
		t.Errorf("Allow allocates %v times, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = limiter.AllowN(ctx, "k", 2) }); n != 0 {
		t.Errorf("AllowN allocates %v times, want 0", n)
	}
}
