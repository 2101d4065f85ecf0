package failure_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A store goes up and down under concurrent load in real time: every request is answered once, every fallback is
// counted and flagged, and neither the store nor the fallback admits more than the quota.
func TestFlappingStoreAdmitsWithinTheQuota(t *testing.T) {
	const workers, outages, quota = 8, 5, 700
	for mode, flag := range modes {
		{
			inner := newRemote(t)
			var turn, calls, flagged, atStore, atFallback atomic.Int64
			inner.do(func(ctx context.Context, batch []store.Request) error {
				if n := turn.Add(1) % 10; n > 6 {
					return batches.FailAll(batch, errDown)
				}
				return inner.Store.Apply(ctx, batch)
			})
			st := newStore(t, inner, mode, failure.Options{
				Timeout: time.Millisecond, ProbeEvery: time.Millisecond, OnFallback: func(_ context.Context, _ store.Mode, _ rule.Op, err error) {
					if !errors.Is(err, failure.ErrUnavailable) {
						t.Errorf("OnFallback got %v", err)
					}
					calls.Add(1)
				},
			})
			limit := bind(t, slidegate.Limit{Quota: quota, Window: 1000 * time.Hour, Algorithm: slidegate.SlidingLog})
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					way := ways[[]string{"TakeSingle", "Apply"}[w%2]]
					for st.Stats().Outages < outages {
						a, err := way(context.Background(), st, store.Charge{Limit: limit, Key: "k", Cost: 1})
						switch {
						case err != nil || a.Flags&^flag != 0:
							t.Errorf("got %+v, %v, want no flag but %v", a, err, flag)
						case a.Flags != 0:
							flagged.Add(1)
							atFallback.Add(a.Granted)
						default:
							atStore.Add(a.Granted)
						}
					}
				})
			}
			wg.Wait()
			stats := st.Stats()
			if stats.Fallbacks != by(mode, flagged.Load()) || calls.Load() != flagged.Load() || stats.Undecided != 0 {
				t.Errorf("%v: %d flagged, %d calls of OnFallback, %+v", mode, flagged.Load(), calls.Load(), stats)
			}
			if atStore.Load() > quota || mode == store.FailLocal && atFallback.Load() > quota {
				t.Errorf("%v: quota %d: %d admitted by the store and %d by the fallback", mode, quota, atStore.Load(), atFallback.Load())
			}
		}
	}
}

// A store that answers probes, and other keys of some requests, in most of the time that they have, is not out because a call is
// late before its probe is answered.
func TestSlowStoreIsNotOut(t *testing.T) {
	each(t, func(t *testing.T, mode store.Mode, take func(store.Store) rule.Answer) {
		inner := newRemote(t)
		inner.do(func(ctx context.Context, batch []store.Request) error {
			delay := 80 * time.Millisecond
			if batch[0].Charges[0].Key == "k" { // such as one that takes two round trips
				delay = 160 * time.Millisecond
			}
			select {
			case <-time.After(delay):
				return inner.Store.Apply(ctx, batch)
			case <-ctx.Done():
				return batches.FailAll(batch, ctx.Err())
			}
		})
		st := newStore(t, inner, mode, failure.Options{Watch: true})
		testkit.Pass(2 * time.Second)
		for range 50 {
			take(st)
			testkit.Pass(70 * time.Millisecond)
		}
		if got := st.Stats(); got.Outages != 0 || got.Late < 5 {
			t.Errorf("got %+v, want late calls and no outage", got)
		}
		inner.hang()
		if took := timed(func() { take(st) }); took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		testkit.Pass(time.Second)
		if st.Health() == nil {
			t.Error("the store is dead, and called")
		}
	})
}
