package lease_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/layer/lease"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return testkit.Must(lease.New(newDistant(t, memstore.Options{Now: clock.Now}), lease.Options{}))(t)
	})
}

// A store in the same process has no calls that leases could save.
func TestRefusesAStoreInProcess(t *testing.T) {
	if _, err := lease.New(memstore.NewDefault(), lease.Options{}); err == nil || !strings.HasPrefix(err.Error(), "lease: inner: ") {
		t.Errorf("got %v, want an error about inner", err)
	}
}

// A busy key gets what the rule admits, nearly all of it from leases, and no unit is lost.
func TestBusyKeyIsLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota, seconds = 1000, 2
		s := testkit.Must(lease.New(newDistant(t, memstore.Options{}), lease.Options{}))(t)
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
