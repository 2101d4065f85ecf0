package lease_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

var ctx = context.Background()

// distant is a store in memory that stands in for one across a network.
type distant struct{ *memstore.Store }

// Traits returns those of a store with round trips.
func (d distant) Traits() store.Traits { return withRoundTrips(d.Store.Traits()) }

func withRoundTrips(traits store.Traits) store.Traits {
	traits.RoundTrips = 1
	return traits
}

func newDistant(t testing.TB, opts memstore.Options) distant {
	t.Helper()
	return distant{testkit.Must(memstore.New(opts))(t)}
}

// rig is a limiter with leases over a store that the test can also see, in a synctest bubble.
type rig struct {
	t      *testing.T
	leased *slidegate.Limiter
	direct *slidegate.Limiter // over the store itself, like another process without leases
	lease  *lease.Store
	gate   *gate
	began  time.Time
	onUndo func() // called once, when a spend of a request is undone
}

// gate is the path to the store, which a test can block.
type gate struct {
	*storetest.Reference
	clock *storetest.Clock
	mu    sync.Mutex
	stop  func(r *store.Request) error // called before a request of the layer is decided; it may wait
	calls atomic.Int64
	ahead atomic.Int64 // how far the store's clock was set ahead, in microseconds
	moved atomic.Bool  // whether answers say that the store moved a state back with its clock
}

// Traits returns those of a store with round trips.
func (g *gate) Traits() store.Traits { return withRoundTrips(g.Reference.Traits()) }

// Layer lets a limiter without leases use leased limits, like one of another process.
func (g *gate) Layer() layering.Layer { return layering.Lease }

// tick sets the store's clock to its current time.
func (g *gate) tick() { g.clock.Set(rule.Micros(time.Now().UnixMicro() + g.ahead.Load())) }

// TakeSingle calls the store.
func (g *gate) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	g.calls.Add(1)
	g.tick()
	return g.Reference.TakeSingle(ctx, limit, key, cost)
}

// Apply calls the store, after stop.
func (g *gate) Apply(ctx context.Context, batch []store.Request) error {
	g.calls.Add(1)
	g.mu.Lock()
	stop := g.stop
	g.mu.Unlock()
	for i := range batch {
		if stop != nil {
			if err := stop(&batch[i]); err != nil {
				return fail(batch, err)
			}
		}
	}
	g.tick()
	err := g.Reference.Apply(ctx, batch)
	if g.moved.Load() {
		for i := range batch {
			batch[i].Answers[0].Flags |= rule.ClockMoved
		}
	}
	return err
}

// at sets the function that is called before a request is decided.
func (g *gate) at(stop func(r *store.Request) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stop = stop
}

// holdBack makes requests of an operation wait until release is called. All of them are released together.
func (g *gate) holdBack(op rule.Op) (release func()) {
	released := make(chan struct{})
	g.at(func(r *store.Request) error {
		if r.Op == op {
			<-released
		}
		return nil
	})
	return func() {
		g.at(nil)
		close(released)
	}
}

// withLease runs a test with leases of a limit, at the beginning of one of its parts.
func withLease(t *testing.T, limit string, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		clock := &storetest.Clock{}
		r := &rig{t: t, gate: &gate{Reference: storetest.NewReference(clock), clock: clock}, began: time.Now()}
		r.lease = lease.New(r.gate, lease.Options{Spent: r.spent})
		l := slidegate.MustParseLimit(limit)
		r.leased = testkit.Must(slidegate.New(r.lease, l))(t)
		r.direct = testkit.Must(slidegate.New(r.gate, l))(t)
		test(r)
		if err := r.lease.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

func (r *rig) spent(s lease.Spend) {
	if undo := r.onUndo; s.Units < 0 && undo != nil {
		r.onUndo = nil
		undo()
	}
}

// warm requests a key until units of it are leased, and returns how many are leased and how many were admitted.
func (r *rig) warm() (atHand, admitted int64) {
	r.t.Helper()
	for admitted < 100 {
		if !testkit.Must(r.leased.Allow(ctx, "key"))(r.t).Allowed {
			r.t.Fatalf("refused after %d were admitted", admitted)
		}
		admitted++
		testkit.Pass(0) // the lease that it caused arrives
		if atHand = r.lease.Stats().Outstanding; atHand >= 5 {
			return atHand, admitted
		}
	}
	r.t.Fatal("a busy key has no lease")
	return 0, 0
}

// remaining returns how many units of the key the store has left.
func (r *rig) remaining() int64 {
	return testkit.Must(r.direct.Peek(ctx, "key", 1))(r.t).Remaining
}

// want checks how many units of the key the store has left.
func (r *rig) want(remaining int64, when string) {
	r.t.Helper()
	if got := r.remaining(); got != remaining {
		r.t.Errorf("%s: the store has %d left, want %d", when, got, remaining)
	}
}

// passUntil lets time pass until that long after the start.
func (r *rig) passUntil(after time.Duration) { testkit.Pass(time.Until(r.began.Add(after))) }
