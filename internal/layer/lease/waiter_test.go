package lease_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// remote is a store that is a millisecond away, and counts the calls.
type remote struct {
	distant
	calls atomic.Int64
}

func (r *remote) Apply(ctx context.Context, batch []store.Request) error {
	r.calls.Add(1)
	testkit.Delay(time.Millisecond)
	return r.Store.Apply(ctx, batch)
}

func (r *remote) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	r.calls.Add(1)
	testkit.Delay(time.Millisecond)
	return r.Store.TakeSingle(ctx, limit, key, cost)
}

// Requests that wait for a lease get units of it, and need not go to the store themselves: using up the last eighth of
// a quota takes few calls, whatever the number of callers.
func TestLastEighthTakesFewCalls(t *testing.T) {
	const quota, callers = 10_000, 64
	synctest.Test(t, func(t *testing.T) {
		memory := newDistant(t, memstore.Options{})
		inner := &remote{distant: memory}
		s := lease.New(inner, lease.Options{})
		l, err := slidegate.New(s, slidegate.Limit{Quota: quota, Window: time.Hour, Algorithm: slidegate.FixedWindow, Lease: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		var admitted, before, after atomic.Int64
		for range callers {
			go func() {
				for admitted.Load() < quota {
					d, err := l.Allow(ctx, "key")
					if err != nil {
						t.Error(err)
						return
					}
					if !d.Allowed {
						return
					}
					switch admitted.Add(1) {
					case quota - quota/8:
						before.Store(inner.calls.Load())
					case quota:
						after.Store(inner.calls.Load())
					}
				}
			}()
		}
		testkit.Pass(time.Minute)
		if n := admitted.Load(); n != quota {
			t.Errorf("got %d admitted, want %d", n, quota)
		}
		if calls, most := after.Load()-before.Load(), int64(10*math.Log(quota)); calls > most {
			t.Errorf("%d calls, want at most %d", calls, most)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		testkit.Pass(time.Minute)
	})
}

// A request that has left when its lease arrives takes nothing of it.
func TestWaiterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := newDistant(t, memstore.Options{})
		s := lease.New(&remote{distant: memory}, lease.Options{})
		l, err := slidegate.New(s, slidegate.Limit{Quota: 100, Window: time.Hour, Algorithm: slidegate.FixedWindow, Lease: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		for range 20 { // until the key is known to be busy
			if d, err := l.Allow(ctx, "key"); err != nil || !d.Allowed {
				t.Fatalf("got %+v, %v, want allowed", d, err)
			}
		}
		testkit.Pass(200 * time.Millisecond) // so that unspent units are returned
		soon, cancel := context.WithTimeout(ctx, 500*time.Microsecond)
		defer cancel()
		if d, err := l.Allow(soon, "key"); err == nil {
			t.Errorf("%+v after the request's context ended", d)
		}
		testkit.Pass(200 * time.Millisecond)
		if d, err := l.Peek(ctx, "key", 1); err != nil || d.Remaining != 80 {
			t.Errorf("%d remain, want 80, %v", d.Remaining, err)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		testkit.Pass(time.Minute)
	})
}

// Leases of a slow store do not get smaller because callers wait for them.
func TestPaceOverSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := newDistant(t, memstore.Options{})
		s := lease.New(slowerStore{memory}, lease.Options{})
		l, err := slidegate.New(s, slidegate.Limit{Quota: 1 << 40, Window: time.Hour, Algorithm: slidegate.FixedWindow, Lease: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		var admitted atomic.Int64
		end := time.Now().Add(10 * time.Second)
		for range 64 {
			go func() {
				for time.Now().Before(end) {
					if _, err := l.Allow(ctx, "key"); err != nil {
						t.Error(err)
						return
					}
					admitted.Add(1)
					<-time.After(time.Millisecond)
				}
			}()
		}
		testkit.Pass(11 * time.Second)
		if n := admitted.Load(); n < 500_000 { // of 640,000, if no request had to wait
			t.Errorf("got %d in ten seconds", n)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		testkit.Pass(time.Minute)
	})
}

// slowerStore is a store that takes longer to answer than a lease lasts.
type slowerStore struct{ distant }

func (s slowerStore) Apply(ctx context.Context, batch []store.Request) error {
	<-time.After(80 * time.Millisecond)
	return s.Store.Apply(ctx, batch)
}
