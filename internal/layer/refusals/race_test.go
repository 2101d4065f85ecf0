package refusals_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// TestConcurrentCallersGetTheQuota checks that concurrent callers are admitted exactly as many units as sequential ones.
func TestConcurrentCallersGetTheQuota(t *testing.T) {
	const workers, keys, quota = 8, 5, 40
	r := newRig(t, refusals.Options{MaxAge: -1, MaxKeys: 3}, true) // too few entries: keys keep replacing each other
	limit := bound(t, slidegate.Limit{Quota: quota, Window: time.Hour})
	var admitted [keys]atomic.Int64
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := range 40 * keys {
				key := (i + worker) % keys
				name := fmt.Sprint(key)
				a, err := takeOne(r.store, limit, name, 1)
				if i%3 == 0 {
					var answers []rule.Answer
					charge := store.Charge{Limit: limit, Key: name, Cost: 1}
					answers, err = apply(context.Background(), r.store, rule.Take, "", charge)
					if a.Allowed {
						admitted[key].Add(1)
					}
					a = answers[0]
				}
				if err != nil {
					t.Error(err)
				}
				if a.Allowed {
					admitted[key].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for key := range admitted {
		if got := admitted[key].Load(); got != quota {
			t.Errorf("key %d: got %d admitted, want %d", key, got, quota)
		}
	}
	if r.store.Stats().Hits == 0 {
		t.Error("nothing was answered from memory")
	}
}

// TestResetWhileOthersPeek takes, is refused and resets, again and again, while other goroutines peek, so that refusals
// are in flight and in memory all the time. A take after a reset must be admitted.
func TestResetWhileOthersPeek(t *testing.T) {
	r := newRig(t, forever, true)
	limit := bound(t, slidegate.Limit{Quota: 1, Window: time.Hour})
	other := bound(t, slidegate.Limit{Name: "other", Quota: 1, Window: time.Hour})
	own := store.Charge{Limit: limit, Key: "key", Cost: 1}
	both := []store.Charge{{Limit: other, Key: "key", Cost: 1}, own}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				charges := both[1:]
				if worker%2 == 0 {
					charges = both
				}
				if _, err := apply(context.Background(), r.store, rule.Peek, "", charges...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 3000 {
		ops, charges := rule.Reset, both[1:]
		if i%2 == 0 {
			ops = rule.GiveBack
		}
		if i%3 == 0 {
			charges = both
		}
		if a := r.several(rule.Take, "", charges...); !a[len(a)-1].Allowed {
			t.Errorf("round %d: refused after a reset: %+v", i, a)
			break
		}
		if a := r.take(limit, "key", 1); a.Allowed {
			t.Errorf("round %d: admitted twice: got %+v, want refused", i, a)
			break
		}
		r.several(ops, "", charges...)
	}
	cancel()
	wg.Wait()
}

// TestHammeringReachesTheStoreUntilRefused checks that many clients of one key reach the store only until the first refusal has returned.
func TestHammeringReachesTheStoreUntilRefused(t *testing.T) {
	const workers = 8
	r := newRig(t, forever, true)
	limit := bound(t, slidegate.Limit{Quota: 1, Window: time.Hour})
	r.take(limit, "key", 1)
	r.spy.requests.Store(0)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range 1000 {
				if a, err := takeOne(r.store, limit, "key", 1); a.Allowed || err != nil {
					t.Errorf("got %+v, %v, want a refusal", a, err)
				}
			}
		})
	}
	wg.Wait()
	if received := r.spy.requests.Load(); received > workers {
		t.Errorf("the store received %d requests from %d clients", received, workers)
	}
	if a := r.take(limit, "key", 1); a.Flags != rule.Cached {
		t.Errorf("got %+v, want an answer from memory", a)
	}
}
