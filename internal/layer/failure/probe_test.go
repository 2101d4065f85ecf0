package failure_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// readOnly makes a store fail for everything that it would write, and answer the rest.
func (r *remote) readOnly(err error) {
	r.do(func(ctx context.Context, batch []store.Request) error {
		for i := range batch {
			if batch[i].Op != rule.Peek {
				return batches.FailAll(batch, err)
			}
		}
		return r.Store.Apply(ctx, batch)
	})
}

// A store that answers but cannot be written is out, for as long as that lasts.
func TestReadOnlyStoreIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		st := newStore(t, inner, store.FailOpen, failure.Options{})
		inner.readOnly(fmt.Errorf("remote: READONLY: %w: %w", store.ErrDown, store.ErrUndone))
		c := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1}
		if a, err := apply(t, st, rule.Take, c); err != nil || a.Flags != rule.FallbackOpen {
			t.Fatalf("got %+v, %v, want the flag FallbackOpen", a, err)
		}
		for range 100 {
			testkit.Pass(100 * time.Millisecond)
			if _, err := apply(t, st, rule.Peek, c); err != nil || st.Health() == nil {
				t.Fatalf("healthy: %v, %v", st.Health(), err)
			}
		}
		if got := st.Stats(); got.Outages != 1 || got.Probes < 10 || got.Probes > 11 {
			t.Errorf("got %+v, want one outage, and one probe per second", got)
		}
		inner.heal()
		testkit.Pass(time.Second)
		if a, err := apply(t, st, rule.Take, c); err != nil || a.Flags != 0 {
			t.Errorf("after it: got %+v, %v", a, err)
		}
	})
}

// layerBelow is a layer of this module that must not see probes.
type layerBelow struct {
	store.Store
	t *testing.T
}

func (l layerBelow) Layer() layering.Layer { return layering.Coalesce }
func (l layerBelow) Unwrap() store.Store   { return l.Store }

func (l layerBelow) Apply(ctx context.Context, batch []store.Request) error {
	if isProbe(batch) {
		l.t.Error("a probe went through a layer")
	}
	return l.Store.Apply(ctx, batch)
}

// A probe charges one unit to a key of this process that expires, below all layers. While the store is out each has a new key,
// which a full store does not accept.
func TestProbeIsACharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		keys := map[string]int{}
		for range 2 {
			inner := newRemote(t)
			inner.do(func(_ context.Context, batch []store.Request) error {
				if r := &batch[0]; isProbe(batch) {
					c := &r.Charges[0]
					if expires := c.Limit.Rule().Window.Duration(); r.Op != rule.Charge || c.Cost != 1 || len(batch) != 1 || expires > time.Minute {
						t.Errorf("got the probe %+v", r)
					}
					if err := inner.Check(c.Limit); err != nil {
						t.Error(err)
					}
					mu.Lock()
					keys[c.Key]++
					mu.Unlock()
				}
				return batches.FailAll(batch, errDown)
			})
			st := newStore(t, layerBelow{inner, t}, store.FailLocal, failure.Options{})
			_, _ = apply(t, st, rule.Take, store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1})
			testkit.Pass(10 * time.Second)
		}
		if len(keys) < 20 {
			t.Errorf("got %d keys of two layers in 10 s, want one for each probe", len(keys))
		}
		for key, n := range keys {
			if n != 1 {
				t.Errorf("%d probes of a store that is out had the key %s", n, key)
			}
		}
	})
}

// While the store answers, all probes have one key.
func TestProbesHaveOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := map[string]int{}
		inner := newRemote(t)
		inner.do(func(ctx context.Context, batch []store.Request) error {
			keys[batch[0].Charges[0].Key]++
			return inner.Store.Apply(ctx, batch)
		})
		newStore(t, inner, store.FailLocal, failure.Options{Watch: true})
		testkit.Pass(10 * time.Second)
		if len(keys) != 1 {
			t.Errorf("got the keys %v, want one", keys)
		}
	})
}

// A store that dies just after a probe is found after one timeout nevertheless.
func TestDeadAfterOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		st := newStore(t, inner, store.FailOpen, failure.Options{Watch: true})
		testkit.Pass(1100 * time.Millisecond) // the last probe was 100ms ago
		inner.do(func(ctx context.Context, batch []store.Request) error {
			<-ctx.Done()
			return batches.FailAll(batch, ctx.Err())
		})
		begin := time.Now()
		answer, err := apply(t, st, rule.Take, store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1})
		if took := time.Since(begin); err != nil || answer.Flags != rule.FallbackOpen || took > 100*time.Millisecond {
			t.Errorf("got %+v, %v after %v, want an admission by the mode open after 100ms", answer, err, took)
		}
		if st.Health() == nil {
			t.Error("the store is dead, and called")
		}
	})
}

// With Watch an outage is found without requests, and its end; charges that are admitted save the probe. Without Watch, a
// store that answers is not probed.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := newRemote(t)
		newStore(t, idle, store.FailLocal, failure.Options{})
		inner := newRemote(t)
		st := newStore(t, inner, store.FailLocal, failure.Options{Watch: true})
		probes := func(d time.Duration, traffic bool) int64 {
			before := inner.probes.Load()
			for end := time.Now().Add(d); time.Now().Before(end); testkit.Pass(100 * time.Millisecond) {
				if traffic {
					_, _ = apply(t, st, rule.Charge, store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1})
				}
			}
			return inner.probes.Load() - before
		}
		if n := probes(10*time.Second, false); n < 9 || n > 11 {
			t.Errorf("%d probes of an idle store in 10s", n)
		}
		if n := probes(10*time.Second, true); n > 1 {
			t.Errorf("%d probes of a busy store in 10s", n)
		}
		inner.readOnly(errDown)
		testkit.Pass(2 * time.Second)
		if st.Health() == nil {
			t.Error("the outage of an idle store was not found")
		}
		inner.heal()
		testkit.Pass(time.Second)
		if err := st.Health(); err != nil {
			t.Errorf("after the outage: %v", err)
		}
		if n := idle.probes.Load(); n != 0 {
			t.Errorf("%d probes without Watch", n)
		}
		st.Close()
		if n := probes(5*time.Second, false); n != 0 {
			t.Errorf("%d probes after Close", n)
		}
	})
}
