package memstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/storetest"
)

// Counts that outgrow the packed form are decided as before: across the edge, on both sides of it, and for the neighbors
// that move along.
func TestCountsOutgrowTheirWord(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range []slidegate.Limit{
		{Quota: 5000, Window: time.Millisecond, Segments: 1}, // a packed count of a millisecond ends at 4095
		{Quota: 5000, Window: time.Millisecond, Overlap: slidegate.OverlapDown},
		{Quota: 5000, Window: time.Millisecond, Overlap: slidegate.OverlapWhole, CountRefused: true},
		{Quota: 20, Window: time.Millisecond, Algorithm: slidegate.SlidingWindow, CountRefused: true}, // outgrown by refusals alone
		{Quota: 1 << 50, Window: time.Hour, Segments: 1},
		{Quota: 1 << 50, Window: time.Hour},
		{Quota: 100, Window: time.Hour},
		{Quota: 1 << 50, Window: time.Hour, Algorithm: slidegate.FixedWindow},
		{Quota: 1 << 30, Window: 5 * 366 * 24 * time.Hour, Segments: 1},
		{Quota: 1 << 30, Window: 5 * 366 * 24 * time.Hour},
	} {
		t.Run(limit.String(), func(t *testing.T) {
			clock := storetest.NewClock(1_767_225_600_000_000)
			ours := newLimiter(t, open(t, memstore.Options{Now: clock.Now}), limit)
			reference := newLimiter(t, storetest.NewReference(clock), limit)
			random := rand.New(rand.NewPCG(1, 0))
			ctx := context.Background()
			for i := range 30_000 {
				key := fmt.Sprint(random.IntN(8))
				cost := random.Int64N(max(2, limit.Quota/int64(1+random.IntN(200))))
				var got, want slidegate.Decision
				switch random.IntN(10) {
				case 0:
					got, _ = ours.Refund(ctx, key, cost)
					want, _ = reference.Refund(ctx, key, cost)
				case 1:
					got, _ = ours.Peek(ctx, key, cost)
					want, _ = reference.Peek(ctx, key, cost)
				case 2:
					got, _ = ours.AllowUpTo(ctx, key, cost)
					want, _ = reference.AllowUpTo(ctx, key, cost)
				default:
					got, _ = ours.AllowN(ctx, key, cost)
					want, _ = reference.AllowN(ctx, key, cost)
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("request %d: %+v, want %+v", i, got, want)
				}
				if clock.Now() < rule.MaxNow/2 {
					clock.Advance(rule.Micros(random.Int64N(limit.Window.Microseconds()/int64(1+random.IntN(500)) + 1)))
				}
			}
		})
	}
}

// Concurrent operations of every kind on few keys, while they change their form: what was granted and not given back never
// exceeds the quota, and the remaining units in the end are correct.
func TestConcurrentOperations(t *testing.T) {
	clock := storetest.NewClock(1_767_225_600_000_000)
	store := open(t, memstore.Options{Now: clock.Now})
	const quota = 4000 // the costs of refusals and of a burst make counts cross 4095
	limits := []slidegate.Limit{
		{Name: "a", Quota: quota, Window: time.Millisecond},
		{Name: "b", Quota: quota, Window: time.Hour},
		{Name: "c", Quota: quota, Window: time.Minute, Algorithm: slidegate.SlidingLog},
		{Name: "d", Quota: quota, Window: time.Minute, Algorithm: slidegate.TokenBucket},
		{Name: "e", Quota: quota, Window: time.Minute, Segments: 12},
	}
	both := newLimiter(t, store, limits...)
	backwards := newLimiter(t, store, limits[4], limits[3], limits[2], limits[1], limits[0])
	first := newLimiter(t, store, limits[0])
	ctx := context.Background()
	var mu sync.Mutex
	var used, alone int64
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 0))
			for range 1500 {
				l := both
				if w%2 == 0 {
					l = backwards
				}
				switch random.IntN(4) {
				case 0:
					if d, err := first.AllowN(ctx, "key", 2); err == nil && d.Allowed {
						mu.Lock()
						alone += 2
						mu.Unlock()
					}
				case 1:
					r, d, err := l.Reserve(ctx, "key", 3)
					if err != nil || !d.Allowed {
						continue
					}
					if _, err := l.SettleAll(ctx, r, 1); err != nil {
						t.Error(err)
					}
					mu.Lock()
					used++
					mu.Unlock()
				default:
					if d, err := l.AllowN(ctx, "key", 1); err == nil && d.Allowed {
						mu.Lock()
						used++
						mu.Unlock()
					}
				}
			}
		})
	}
	wg.Wait()
	d, err := both.Peek(ctx, "key", 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, answer := range d.Answers {
		want := quota - used
		if i == 0 {
			want -= alone
		}
		if answer.Remaining != want || want < 0 {
			t.Errorf("limit %s: %d remain, want %d", limits[i].Name, answer.Remaining, want)
		}
	}
}
