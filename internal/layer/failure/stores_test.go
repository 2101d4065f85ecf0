package failure_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/leakcheck"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// errDown is the error of a store that refuses connections, errBroken of one whose connection broke, and errOne may concern one
// key only.
var (
	errOne    = errors.New("remote: cannot read the state of this key")
	errBroken = fmt.Errorf("remote: broken pipe: %w", store.ErrDown)
	errDown   = fmt.Errorf("remote: connection refused: %w: %w", store.ErrDown, store.ErrUndone)
)

// remote is a store with a round trip whose health the test controls. It has no TakeSingle.
type remote struct {
	store.Store
	calls   atomic.Int64 // without probes
	probes  atomic.Int64
	handle  atomic.Pointer[func(ctx context.Context, batch []store.Request) error]
	noTrips bool
}

func newRemote(t testing.TB) *remote { return &remote{Store: newMemory(t)} }

func newMemory(t testing.TB) *memstore.Store {
	t.Helper()
	return testkit.Must(memstore.New(memstore.Options{}))(t)
}

func (r *remote) Traits() store.Traits {
	traits := r.Store.Traits()
	traits.Name, traits.RoundTrips, traits.ServerClock = "remote", 1, true
	if r.noTrips {
		traits.RoundTrips = 0
	}
	return traits
}

func (r *remote) Apply(ctx context.Context, batch []store.Request) error {
	if isProbe(batch) {
		r.probes.Add(1)
	} else {
		r.calls.Add(1)
	}
	if handle := r.handle.Load(); handle != nil {
		return (*handle)(ctx, batch)
	}
	return r.Store.Apply(ctx, batch)
}

// isProbe reports whether a batch is a probe.
func isProbe(batch []store.Request) bool {
	return batch[0].Charges[0].Limit.Namespace() == "slidegate/health"
}

func (r *remote) do(handle func(ctx context.Context, batch []store.Request) error) {
	r.handle.Store(&handle)
}

func (r *remote) heal() { r.handle.Store(nil) }

// fail makes the store return errors.
func (r *remote) fail(err error) {
	r.do(func(_ context.Context, batch []store.Request) error { return batches.FailAll(batch, err) })
}

// hang makes the store silent until the context ends.
func (r *remote) hang() {
	r.do(func(ctx context.Context, batch []store.Request) error {
		<-ctx.Done()
		return batches.FailAll(batch, fmt.Errorf("remote: %w", ctx.Err()))
	})
}

// slow makes the store answer late, even if no caller waits any more.
func (r *remote) slow(by time.Duration) {
	r.do(func(ctx context.Context, batch []store.Request) error {
		testkit.Delay(by)
		return r.Store.Apply(context.WithoutCancel(ctx), batch)
	})
}

// callsSinceCheck returns the number of calls to the store since the last check.
func (r *remote) callsSinceCheck() int64 { return r.calls.Swap(0) }

// newStore returns a layer whose default mode is mode. It is closed at the end of the test.
func newStore(t testing.TB, inner store.Store, mode store.Mode, opts failure.Options) *failure.Store {
	t.Helper()
	if opts.Mode = mode; opts.Local == nil {
		opts.Local = newMemory(t)
	}
	st := failure.New(inner, opts)
	t.Cleanup(st.Close)
	return st
}

func bind(t testing.TB, limit slidegate.Limit) *store.Limit {
	t.Helper()
	return testkit.Must(adapter.Bind("", limit))(t)
}

func request(op rule.Op, charges ...store.Charge) store.Request {
	return store.Request{Op: op, Charges: charges, Answers: make([]rule.Answer, len(charges))}
}

// apply sends one request with one charge.
func apply(t testing.TB, st store.Store, op rule.Op, charge store.Charge) (rule.Answer, error) {
	t.Helper()
	batch := []store.Request{request(op, charge)}
	err := st.Apply(t.Context(), batch)
	if err != batch[0].Err {
		t.Fatalf("Apply returned %v, and Err is %v", err, batch[0].Err)
	}
	return batch[0].Answers[0], err
}

// ways are the two ways to take one charge.
var ways = map[string]func(context.Context, store.Store, store.Charge) (rule.Answer, error){
	"TakeSingle": func(ctx context.Context, st store.Store, c store.Charge) (a rule.Answer, err error) {
		var after rule.Micros
		a.Allowed, a.Flags, a.Remaining, after, a.ResetAfter, a.At, err =
			st.(store.SingleTaker).TakeSingle(ctx, c.Limit, c.Key, c.Cost)
		if a.Allowed {
			a.Granted, a.NextAfter = c.Cost, after
		} else {
			a.RetryAfter = after
		}
		return a, err
	},
	"Apply": func(ctx context.Context, st store.Store, c store.Charge) (rule.Answer, error) {
		batch := []store.Request{request(rule.Take, c)}
		err := st.Apply(ctx, batch)
		return batch[0].Answers[0], err
	},
}

// modes are FailOpen, FailClosed and FailLocal, each with its flag.
var modes = map[store.Mode]rule.Flags{
	store.FailOpen: rule.FallbackOpen, store.FailClosed: rule.FallbackClosed, store.FailLocal: rule.FallbackLocal,
}

// by returns Stats.Fallbacks with n decisions of a mode.
func by(mode store.Mode, n int64) (fallbacks [store.Modes]int64) {
	fallbacks[mode] = n
	return fallbacks
}

// timed returns how much virtual time something took.
func timed(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

// expect compares statistics, except the number of probes.
func expect(t testing.TB, store *failure.Store, want failure.Stats) {
	t.Helper()
	got := store.Stats()
	got.Probes = 0 // they are sent at any time; see probe_test.go
	if got != want {
		t.Errorf("statistics:\n got  %+v\n want %+v", got, want)
	}
}
