package slidegate_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// A store that can decide a single charge without a batch makes the same decisions either way, in every field.
func TestSameDecisionsWithAndWithoutBatch(t *testing.T) {
	const seed = 1
	limits := []slidegate.Limit{
		slidegate.PerSecond(7),
		{Name: "denied", Quota: 7, Window: time.Second, CountDenied: true},
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
					clock.Advance(slidegate.Micros(random.Int64N(300_000)) - 20_000)
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
