package layers_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
)

// remoteStore is a store with round trips that can be unreachable.
type remoteStore struct {
	store.Store
	away atomic.Bool
}

func (f *remoteStore) Traits() store.Traits {
	traits := f.Store.Traits()
	traits.RoundTrips, traits.ServerClock = 1, true
	return traits
}

func (f *remoteStore) Apply(ctx context.Context, batch []store.Request) error {
	if !f.away.Load() {
		return f.Store.Apply(ctx, batch)
	}
	err := errors.New("far: no route to host")
	for i := range batch {
		batch[i].Err = err
	}
	return err
}

// With leases above the failure layer, an outage admits what was leased and then what the mode local counts, and nothing is leased
// from that. When the store is reachable again, it has been charged exactly what was not counted in the process.
func TestLeasesOverFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota = 10_000
		begin := time.Now()
		below := &remoteStore{Store: memstore.NewDefault()}
		layer := failure.New(below, failure.Options{Local: memstore.NewDefault()})
		leases := lease.New(layer, lease.Options{Now: func() time.Duration { return time.Since(begin) }})
		limit := slidegate.Limit{Quota: quota, Window: time.Hour, Segments: 60, Overlap: slidegate.OverlapWhole, Lease: true}
		limiter := kit.Must(slidegate.New(leases, limit))(t)
		admitted := map[rule.Flags]int64{}
		take := func() {
			for range 100 {
				testkit.Delay(time.Millisecond)
				if d := kit.Must(limiter.Allow(t.Context(), "key"))(t); d.Allowed {
					admitted[d.Flags]++
				}
			}
		}
		take()
		below.away.Store(true)
		out := leases.Stats().Outstanding
		before := admitted[rule.Leased]
		take()
		take()
		if leased := admitted[rule.Leased] - before; out == 0 || leased > out || leased+admitted[rule.FallbackLocal] != 200 {
			t.Errorf("%d were leased when the store went away; then admitted: %v; leased before: %d", out, admitted, before)
		}
		below.away.Store(false)
		take()
		if err := leases.Close(t.Context()); err != nil {
			t.Error(err)
		}
		layer.Close()
		testkit.Delay(2 * time.Second) // until the keeper sees that there are no leases
		byStore := admitted[0] + admitted[rule.Leased]
		used := quota - kit.Must(kit.Must(slidegate.New(below.Store, limit))(t).Peek(t.Context(), "key", 1))(t).Remaining
		if wasted := leases.Stats().Wasted; used != byStore+wasted {
			t.Errorf("got %d used in the store; %d were admitted from it (%v) and %d wasted", used, byStore, admitted, wasted)
		}
	})
}
