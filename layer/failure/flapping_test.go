package failure_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A store goes up and down under concurrent load in real time: every request is answered once, every fallback is
// counted and flagged, and neither the store nor the fallback admits more than the quota.
func TestFlappingStoreAdmitsWithinTheQuota(t *testing.T) {
	const workers, outages, quota = 8, 5, 700
	for flag := range policies(t) {
		for _, detached := range []int{0, 4} {
			inner, memory := newRemote(t), newMemory(t)
			policy := policies(t)[flag]
			if policy.String() == "local" {
				policy = failure.Local(memory)
			}
			var turn, calls, flagged, atStore, atFallback atomic.Int64
			inner.do(func(ctx context.Context, batch []store.Request) error {
				if n := turn.Add(1) % 10; n > 6 {
					return setErr(batch, errDown)
				}
				return inner.Store.Apply(ctx, batch)
			})
			st := newStore(t, inner, policy, failure.Options{
				Timeout: time.Millisecond, ProbeEvery: time.Millisecond, MaxDetached: detached, Failures: 2,
				OnFallback: func(_ context.Context, _ rule.Op, err error) {
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
			if stats.Fallbacks != flagged.Load() || calls.Load() != flagged.Load() || stats.Undecided != 0 {
				t.Errorf("%v: %d flagged, %d calls of OnFallback, %+v", policy, flagged.Load(), calls.Load(), stats)
			}
			if atStore.Load() > quota || policy.String() == "local" && atFallback.Load() > quota {
				t.Errorf("%v: quota %d: %d admitted by the store and %d by the fallback", policy, quota, atStore.Load(), atFallback.Load())
			}
		}
	}
}
