package kvstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
)

// distant returns an engine whose requests and replies each take 50 to 100 microseconds.
func distant() *kvtest.Table {
	travel := func(context.Context, kvtest.Call) error {
		testkit.Delay(50*time.Microsecond + rand.N(50*time.Microsecond))
		return nil
	}
	return &kvtest.Table{Before: travel, After: travel}
}

// Processes that compete for a key all get their turn: none gets much more than another, no caller fails, and none waits for long.
func TestProcessesTakeTurns(t *testing.T) {
	const callers = 16
	length := 400 * time.Millisecond
	if testkit.Race {
		length = 50 * time.Millisecond // the race detector is slow, and races show early
	}
	for _, c := range []struct{ processes, remember int }{{2, 0}, {4, 0}, {8, 0}, {8, -1}, {16, 0}} {
		t.Run(fmt.Sprintf("%d processes, remember %d", c.processes, c.remember), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := distant()
				counts := make([]atomic.Int64, c.processes)
				var longest atomic.Int64
				var group sync.WaitGroup
				for p := range c.processes {
					limiter := hourlyLimiter(t, newStore(t, engine, kvstore.Options{Remember: c.remember}), 1_000_000_000)
					for range callers {
						group.Go(func() {
							for begun := time.Now(); time.Since(begun) < length; {
								start := time.Now()
								if _, err := limiter.Allow(t.Context(), "key"); err != nil {
									t.Errorf("process %d: %v", p, err)
									return
								}
								counts[p].Add(1)
								took := int64(time.Since(start))
								for before := longest.Load(); took > before && !longest.CompareAndSwap(before, took); before = longest.Load() {
								}
							}
						})
					}
				}
				group.Wait()
				shares := make([]int64, c.processes)
				for p := range counts {
					shares[p] = counts[p].Load()
				}
				ratio := float64(slices.Max(shares)) / float64(slices.Min(shares))
				t.Logf("decisions by process: %v, the most are %.2f times the fewest, the longest wait was %v, %+v",
					shares, ratio, time.Duration(longest.Load()), engine.Counts())
				if ratio > 3 && !testkit.Race || time.Duration(longest.Load()) > 200*time.Millisecond {
					t.Errorf("one process has %.2f times as many decisions as another, want at most 3; the longest wait was %v, want at most 200ms",
						ratio, time.Duration(longest.Load()))
				}
			})
		})
	}
}
