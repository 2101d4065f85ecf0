package lease_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
)

// TestCallsByPart compares the table of parts in docs/leases.md with a run, whose figures it prints with -v. Four processes each
// request a key 1000 times per second, and the quota is enough for all of them.
func TestCallsByPart(t *testing.T) {
	const processes, seconds = 4, 5
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // requests that are due at the same time run in any order, which decides who finds a block used up
	page := string(testkit.Must(os.ReadFile("../../../docs/leases.md"))(t))
	rows := regexp.MustCompile(`(?m)^\| (\d+) (m?s) \| (\d+) \| (\d+) % \|$`).FindAllStringSubmatch(page, -1)
	if len(rows) != 6 {
		t.Fatalf("docs/leases.md: found %d rows of the table of parts, want 6", len(rows))
	}
	for _, row := range rows {
		part := testkit.Must(time.ParseDuration(row[1] + row[2]))(t)
		wantCalls := testkit.Must(strconv.ParseInt(row[3], 10, 64))(t)
		wantReturned := testkit.Must(strconv.ParseInt(row[4], 10, 64))(t)
		synctest.Test(t, func(t *testing.T) {
			remote := newDistant(t, memstore.Options{})
			limit := slidegate.MustParseLimit(fmt.Sprintf("20000/1s sliding-window segments=%d overlap=whole lease", time.Second/part))
			var stores []*lease.Store
			var refused atomic.Int64
			for range processes {
				s := lease.New(network{remote, &instance{start: time.Now()}}, lease.Options{MaxKeys: 8})
				limiter := testkit.Must(slidegate.New(s, limit))(t)
				stores = append(stores, s)
				go func() {
					for range seconds * 1000 {
						go func() {
							if !testkit.Must(limiter.Allow(context.Background(), "k"))(t).Allowed {
								refused.Add(1)
							}
						}()
						<-time.After(time.Millisecond)
					}
				}()
			}
			testkit.Pass(seconds * time.Second)
			var calls, taken, returned int64
			for _, s := range stores {
				stats := s.Stats()
				calls, taken, returned = calls+stats.Calls, taken+stats.Taken, returned+stats.Returned
			}
			calls /= processes * seconds
			share := 100 * returned / taken
			t.Logf("parts of %v: %d calls per second and process, %d %% returned", part, calls, share)
			if off := max(3, wantCalls/8); calls < wantCalls-off || calls > wantCalls+off || share < wantReturned-5 || share > wantReturned+5 {
				t.Errorf("docs/leases.md, parts of %v: %d calls and %d %% returned; got %d and %d %%", part, wantCalls, wantReturned, calls, share)
			}
			if refused.Load() > 0 {
				t.Errorf("parts of %v: %d requests refused, want none", part, refused.Load())
			}
			testkit.Pass(2 * time.Second) // the keepers end
		})
	}
}
