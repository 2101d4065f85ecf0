package lease_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// failing is a store with a failure layer, by its answers: while it is away, the strictest mode of a request decides.
type failing struct {
	distant
	away     atomic.Bool
	mu       sync.Mutex
	requests []store.Request // that were decided while it was away
}

func (f *failing) Apply(ctx context.Context, batch []store.Request) error {
	if !f.away.Load() {
		return f.distant.Apply(ctx, batch)
	}
	for i := range batch {
		r := &batch[i]
		f.mu.Lock()
		f.requests = append(f.requests, *r)
		f.mu.Unlock()
		var mode store.Mode
		for k := range r.Charges {
			mode = max(mode, r.Charges[k].Limit.Mode())
		}
		for k := range r.Charges {
			a := rule.Answer{Flags: rule.FallbackClosed, At: -1}
			if mode == store.FailOpen {
				a = rule.Answer{Allowed: true, Flags: rule.FallbackOpen, Granted: r.Charges[k].Cost, At: -1}
			}
			r.Answers[k], r.Err = a, nil
		}
	}
	return nil
}

func (f *failing) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	return store.Single(struct{ store.Store }{f}).TakeSingle(ctx, limit, key, cost)
}

// Requests of one address in two failure modes spend from the same leases. While the store is away, each is decided by its
// own mode, and what a mode admits is not leased to the other.
func TestModesShareALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &failing{distant: newDistant(t, memstore.Options{})}
		s := lease.New(remote, lease.Options{})
		limit := slidegate.MustParseLimit("1000/1m segments=60 overlap=whole lease")
		open := testkit.Must(slidegate.New(store.In(s, store.FailOpen), limit))(t)
		closed := testkit.Must(slidegate.New(store.In(s, store.FailClosed), limit))(t)
		both := []*slidegate.Limiter{open, closed}
		for i := range 40 {
			testkit.Must(both[i%2].Allow(ctx, "k"))(t)
			<-time.After(time.Millisecond)
		}
		if stats := s.Stats(); stats.Keys != 1 || stats.Decisions < 20 {
			t.Errorf("got %+v, want one key for both modes, and most decisions from its leases", stats)
		}
		remote.away.Store(true)
		testkit.Pass(time.Second) // what was leased has ended
		taken := s.Stats().Taken
		for i := range 40 {
			d := testkit.Must(both[i%2].Allow(ctx, "k"))(t)
			if want := []rule.Flags{rule.FallbackOpen, rule.FallbackClosed}[i%2]; d.Allowed != (i%2 == 0) || d.Flags != want {
				t.Fatalf("request %d: got %+v, want it decided by its own mode", i, d)
			}
			<-time.After(time.Millisecond)
		}
		if stats := s.Stats(); stats.Taken != taken || stats.Outstanding != 0 {
			t.Errorf("got %+v, want no unit leased while the store is away", stats)
		}
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A request with a leased limit in mode closed and another in mode open reaches the failure layer with both: without the
// first, mode open would admit it.
func TestStrictestModeOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &failing{distant: newDistant(t, memstore.Options{})}
		s := lease.New(remote, lease.Options{})
		global := testkit.Must(adapter.Bind("", slidegate.MustParseLimit("1000/1h fixed-window lease")))(t).In(store.FailClosed)
		user := testkit.Must(adapter.Bind("", slidegate.MustParseLimit("50/1h")))(t).In(store.FailOpen)
		for s.Stats().Outstanding == 0 {
			if _, _, _, _, _, _, err := s.TakeSingle(ctx, global, "all", 1); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		remote.away.Store(true)
		batch := []store.Request{{
			Op: rule.Take, Charges: []store.Charge{{Limit: user, Key: "u", Cost: 1}, {Limit: global, Key: "all", Cost: 1}}, Answers: make([]rule.Answer, 2),
		}}
		if err := s.Apply(ctx, batch); err != nil {
			t.Fatal(err)
		}
		if _, allowed := answering.Deciding(batch[0].Answers); allowed || len(remote.requests) != 1 || len(remote.requests[0].Charges) != 2 {
			t.Errorf("got allowed %v after %+v, want it refused as a whole", allowed, remote.requests)
		}
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}
