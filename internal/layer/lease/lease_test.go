package lease_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return lease.New(newDistant(t, memstore.Options{Now: clock.Now}), lease.Options{})
	})
}

// A busy key gets what the rule admits, nearly all of it from leases, and no unit is lost.
func TestBusyKeyIsLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota, seconds = 1000, 2
		s := lease.New(newDistant(t, memstore.Options{}), lease.Options{})
		limit := slidegate.Limit{Quota: quota, Window: time.Second, Segments: 10, Overlap: slidegate.OverlapWhole, Lease: true}
		l := testkit.Must(slidegate.New(s, limit))(t)
		var admitted atomic.Int64
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				for range 1000 * seconds {
					if testkit.Must(l.Allow(t.Context(), "k"))(t).Allowed {
						admitted.Add(1)
					}
					testkit.Delay(time.Millisecond)
				}
			})
		}
		callers.Wait()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := s.Stats()
		if n := admitted.Load(); n != quota*seconds || got.Decisions < quota*seconds*95/100 {
			t.Errorf("got %d admitted, %d of them from leases; want %d, most of them from leases", n, got.Decisions, quota*seconds)
		}
		if got.Taken != got.Spent+got.Returned || got.Wasted != 0 {
			t.Errorf("%+v: want all leased units spent or returned", got)
		}
	})
}
