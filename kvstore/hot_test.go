package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// inFlight counts the calls of an engine that are under way for each name.
type inFlight struct {
	mu      sync.Mutex
	now     map[string]int
	highest int
}

// slow returns an engine that takes a second for every call.
func (f *inFlight) slow() *kvtest.Table {
	f.now = map[string]int{}
	add := func(name string, n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.now[name] += n
		f.highest = max(f.highest, f.now[name])
	}
	return &kvtest.Table{Before: func(_ context.Context, call kvtest.Call) error {
		add(call.Name, 1)
		defer add(call.Name, -1)
		testkit.Delay(time.Second)
		return nil
	}}
}

// The callers of a busy key share one call in flight, even if every refusal is written. They wait for the call that is under way and
// for their own, and callers of other keys wait only for their own.
func TestBusyKeyDelaysNoOther(t *testing.T) {
	const callers, times = 90, 20
	synctest.Test(t, func(t *testing.T) {
		var calls inFlight
		engine := calls.slow()
		s := newStore(t, engine, kvstore.Options{Timeout: time.Minute})
		busy := testkit.Must(slidegate.New(s, slidegate.Limit{Name: "counted", Quota: 5, Window: time.Hour, CountRefused: true}))(t)
		calm := hourlyLimiter(t, s, quota)
		allow := func(limiter *slidegate.Limiter, key string, longest time.Duration) {
			begun := time.Now()
			if _, err := limiter.Allow(t.Context(), key); err != nil || time.Since(begun) > longest {
				t.Errorf("%s: %v after %v, want no error after at most %v", key, err, time.Since(begun), longest)
			}
		}
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range times {
					allow(busy, "busy", 4*time.Second) // each of the two may be a read and a swap
				}
			})
		}
		for i := range 10 {
			group.Go(func() {
				for range times / 2 {
					allow(calm, fmt.Sprint("calm ", i), 2*time.Second)
				}
			})
		}
		group.Wait()
		if calls.highest != 1 {
			t.Errorf("%d calls for one entry were under way at once, want 1", calls.highest)
		}
	})
}

// A caller that leaves while its swap is under way is not an error of the others that share the swap, whichever of them it is.
func TestOthersAreDecidedWhenOneLeaves(t *testing.T) {
	const callers = 5
	for leaver := range callers {
		synctest.Test(t, func(t *testing.T) {
			var calls inFlight
			engine := calls.slow()
			s := newStore(t, engine, kvstore.Options{Timeout: time.Minute})
			var group sync.WaitGroup
			for i := range callers {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				if i == leaver {
					ctx, cancel = context.WithTimeout(t.Context(), 1500*time.Millisecond) // after the read, before the swap has ended
				}
				group.Go(func() {
					defer cancel()
					err := s.Apply(ctx, []store.Request{request(rule.Take, "key")})
					if left := errors.Is(err, context.DeadlineExceeded); left != (i == leaver) || !left && err != nil {
						t.Errorf("caller %d of %d, of which %d leaves: %v", i, callers, leaver, err)
					}
				})
			}
			group.Wait()
			synctest.Wait()
			if got := engine.Counts(); got.Swaps > 2 {
				t.Errorf("%d callers at once needed %d swaps, want at most 2", callers, got.Swaps)
			}
		})
	}
}
