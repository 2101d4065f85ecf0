package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func open(t testing.TB, opts memstore.Options) *memstore.Store {
	t.Helper()
	return testkit.Must(memstore.New(opts))(t)
}

// openTiny opens a store with space for one page.
func openTiny(t testing.TB, opts memstore.Options) *memstore.Store {
	t.Helper()
	opts.MaxBytes = 256 << 10
	store := open(t, opts)
	store.SetCapacity(20_000)
	return store
}

func newLimiter(t testing.TB, store store.Store, limits ...slidegate.Limit) *slidegate.Limiter {
	t.Helper()
	return testkit.Must(slidegate.New(store, limits...))(t)
}

// sliding returns a sliding window of one segment, whose state is decided without a lock.
func sliding(quota int64, window time.Duration) slidegate.Limit {
	return slidegate.Limit{Quota: quota, Window: window, Algorithm: slidegate.SlidingWindow}
}

// newPlan returns a limiter of one limit that may share the counts of others.
func newPlan(t testing.TB, store store.Store, limit slidegate.Limit) *slidegate.Limiter {
	t.Helper()
	return testkit.Must(testkit.Must(slidegate.New(store))(t).With(limit))(t)
}

func allow(t testing.TB, l *slidegate.Limiter, key string, n int64) slidegate.Decision {
	t.Helper()
	d, err := l.AllowN(context.Background(), key, n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return open(t, memstore.Options{Now: clock.Now})
	})
}

func TestContractInAFolder(t *testing.T) {
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return openFolder(t, memstore.Options{Now: clock.Now})
	})
}

func TestOptions(t *testing.T) {
	for _, opts := range []memstore.Options{{MaxBytes: -1}, {MaxBytes: 1}, {MaxBytes: 1<<40 + 1}, {MaxLimits: -1}, {MaxLimits: 1<<20 + 1}} {
		if _, err := memstore.New(opts); err == nil {
			t.Errorf("%+v: got no error", opts)
		}
	}
}

func TestMaxLimits(t *testing.T) {
	store := open(t, memstore.Options{MaxLimits: 2})
	for i := range 3 {
		limiter := newLimiter(t, store, slidegate.Limit{Quota: 1, Window: time.Duration(i+1) * time.Second})
		_, err := limiter.Allow(context.Background(), "key")
		if refused := errors.Is(err, memstore.ErrLimits); refused != (i == 2) {
			t.Errorf("limit %d: %v", i, err)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	ctx := context.Background()
	for _, limit := range []slidegate.Limit{
		sliding(5, time.Minute),
		slidegate.PerMinute(1_000_000),
		{Quota: 5, Window: time.Minute, Segments: 60},
		{Quota: 5, Window: time.Minute, Algorithm: slidegate.SlidingLog},
		{Quota: 5, Window: time.Minute, Algorithm: slidegate.TokenBucket},
		{Quota: 5, Window: time.Minute, Algorithm: slidegate.FixedWindow},
	} {
		limiter := newLimiter(t, open(t, memstore.Options{}), limit)
		for range 10 {
			allow(t, limiter, "key", 1)
		}
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := limiter.Allow(ctx, "key"); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations per decision, want 0", limit, n)
		}
	}
}

// While the table grows by splits, every key must be found where it was put: each has a quota of one, and many goroutines
// request it concurrently.
func TestGrowthUnderLoad(t *testing.T) {
	for _, limit := range []slidegate.Limit{
		sliding(1, time.Hour),
		{Quota: 1, Window: time.Hour, Algorithm: slidegate.TokenBucket},
		{Quota: 1 << 40, Window: time.Hour}, // every request takes all of it: cannot be packed
	} {
		limiter := newLimiter(t, open(t, memstore.Options{}), limit)
		const workers, keys = 8, 30_000
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range keys {
					// The workers go through the keys in different orders.
					key := fmt.Sprint((i*(2*w+1) + w*977) % keys)
					if d, err := limiter.AllowN(context.Background(), key, limit.Quota); err == nil && d.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		seen := 0
		for i := range keys {
			if !allow(t, limiter, fmt.Sprint(i), limit.Quota).Allowed {
				seen++
			}
		}
		if int(admitted.Load()) != seen || seen != keys {
			t.Errorf("%s: %d keys, %d admissions, %d refused afterwards", limit, keys, admitted.Load(), seen)
		}
	}
}

// Every default store is a new one, empty and usable.
func TestNewDefault(t *testing.T) {
	for range 2 {
		limiter := newLimiter(t, memstore.NewDefault(), sliding(1, time.Hour))
		if d, err := limiter.Allow(t.Context(), "k"); err != nil || !d.Allowed {
			t.Errorf("the first request on a new store: got %+v, %v, want allowed", d, err)
		}
	}
}
