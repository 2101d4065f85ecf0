package lease_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/layer/lease"
	"github.com/slidegate/slidegate/memstore"
)

// TestCallsByPart prints, with -v, the table of parts in docs/leases.md. Four processes each request a key 1000 times
// per second, and the quota is enough for all of them.
func TestCallsByPart(t *testing.T) {
	const processes, seconds = 4, 5
	for _, c := range []struct {
		segments int
		most     int64 // calls per second
	}{{1, 25}, {2, 25}, {5, 30}, {10, 40}, {20, 90}, {50, 130}} {
		synctest.Test(t, func(t *testing.T) {
			remote := testkit.Must(memstore.New(memstore.Options{}))(t)
			limit := slidegate.MustParseLimit(fmt.Sprintf("20000/1s sliding-window segments=%d overlap=whole lease", c.segments))
			var stores []*lease.Store
			var refused atomic.Int64
			for range processes {
				s := testkit.Must(lease.New(network{remote, &instance{start: time.Now()}}, lease.Options{MaxKeys: 8}))(t)
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
			t.Logf("parts of %v: %d calls per second and process, %d %% returned", time.Second/time.Duration(c.segments), calls, 100*returned/taken)
			if calls > c.most || refused.Load() > 0 {
				t.Errorf("%d segments: %d calls per second and process, %d requests denied; want at most %d calls, and none denied",
					c.segments, calls, refused.Load(), c.most)
			}
			testkit.Pass(2 * time.Second) // the keepers end
		})
	}
}
