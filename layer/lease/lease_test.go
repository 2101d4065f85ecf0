package lease_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/lease"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		inner, err := memstore.New(memstore.Options{Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		s, err := lease.New(inner, lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestHotKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := lease.New(inner, lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := slidegate.New(s, slidegate.Limit{Quota: 1000, Window: time.Second, Segments: 10, Overlap: slidegate.OverlapWhole, Lease: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		var mu sync.Mutex
		admitted := 0
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 2000 {
					d, err := l.Allow(ctx, "k")
					if err != nil {
						t.Error(err)
						return
					}
					if d.Allowed {
						mu.Lock()
						admitted++
						mu.Unlock()
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Wait()
		t.Log(admitted, s.Stats())
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
	})
}
