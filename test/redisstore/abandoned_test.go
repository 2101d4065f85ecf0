package redisstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/redistest"
)

// Half of the callers leave while a slow server answers. When all others have settled, only what they used is counted, and
// no slot is held.
func TestAbandonedReservationsAreCancelled(t *testing.T) {
	t.Parallel()
	node := redistest.Server(t, "appendonly no")
	proxy := faultproxy.New(t, node.Addr())
	opts := node.Options()
	opts.InitAddress = []string{proxy.Addr()}
	st := newStore(t, redistest.Client(t, opts), redisstore.Options{})
	limiter, err := slidegate.New(st,
		slidegate.Limit{Name: "tokens", Quota: 10_000_000, Window: 24 * time.Hour, Algorithm: slidegate.FixedWindow, Anchor: slidegate.AnchorFirst},
		slidegate.Limit{Name: "running", Quota: 1000, Window: time.Hour, Algorithm: slidegate.InFlight})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := limiter.Peek(t.Context(), "org", 1); err != nil { // the script is loaded now
		t.Fatal(err)
	}
	proxy.Slow(5*time.Millisecond, 5*time.Millisecond)
	const callers, estimate, actual = 200, 1501, 700
	var wg sync.WaitGroup
	var left, settled atomic.Int64
	for i := range callers {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%2 == 0 {
				time.AfterFunc(time.Duration(rand.Int64N(int64(30*time.Millisecond))), cancel)
			}
			r, d, err := limiter.Reserve(ctx, "org", estimate)
			switch {
			case errors.Is(err, context.Canceled):
				left.Add(1)
				return
			case err != nil || !d.Allowed:
				t.Errorf("%+v, %v, want a reservation", d, err)
				return
			}
			if _, err := limiter.Finish(ctx, r, nil, slidegate.Used{Limit: "tokens", Cost: actual}); err != nil {
				t.Error(err)
			}
			settled.Add(1)
		})
	}
	wg.Wait()
	if left.Load() == 0 || settled.Load() < callers/2 {
		t.Fatalf("%d callers left and %d settled; the test needs some of both", left.Load(), settled.Load())
	}
	want := 10_000_000 - settled.Load()*actual
	for patience := time.Now().Add(time.Minute); ; {
		d, err := limiter.Peek(t.Context(), "org", 1)
		if err == nil && d.Answers[0].Remaining == want && d.Answers[1].Remaining == 1000 {
			return
		}
		if time.Now().After(patience) {
			t.Fatalf("after %d callers left and %d settled: %+v, %v; want %d units and 1000 slots", left.Load(), settled.Load(), d.Answers, err, want)
		}
	}
}
