package gate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// downStore is a store that does not answer.
type downStore struct{ store.Store }

func (downStore) Apply(_ context.Context, batch []store.Request) error {
	for i := range batch {
		batch[i].Err = store.ErrDown
	}
	return store.ErrDown
}

// fillLimits uses up a store's capacity for limits with limits that are in no file, as descriptors and CL.THROTTLE can.
func fillLimits(t *testing.T, st store.Store) {
	t.Helper()
	for i := range 10_000 {
		limiter, err := slidegate.New(st, slidegate.Limit{Quota: 5, Window: time.Duration(i+1) * time.Minute, Algorithm: slidegate.FixedWindow})
		if err != nil {
			t.Fatal(err)
		}
		_, err = limiter.Allow(ctx, "key")
		if errors.Is(err, memstore.ErrLimits) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the store accepted 10,000 limits, want it to run out of capacity")
}

// limitsNamed returns how many limits of a namespace a store has memory for.
func limitsNamed(m *memstore.Store, namespace string) (n int) {
	for _, limit := range m.Stats().Limits {
		if limit.Namespace == namespace {
			n++
		}
	}
	return n
}

// TestOtherLimitsTakeNoCapacity: the limits of the file and its overrides are decided, however many other
// limits there are.
func TestOtherLimitsTakeNoCapacity(t *testing.T) {
	for name, wrap := range map[string]func(*memstore.Store) store.Store{
		"memory": func(m *memstore.Store) store.Store { return m },
		"observed": func(m *memstore.Store) store.Store {
			o, err := observe.New(m, observe.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = o.Close() })
			return o
		},
		"a fallback": func(m *memstore.Store) store.Store {
			f := failure.New(downStore{m}, failure.Options{Local: m, Instances: 2})
			t.Cleanup(f.Close)
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := memory(t, newClock())
			st := wrap(m)
			p := policyOf("login", "6/90m", "9/7d sliding-log")
			p.Overrides = []policy.Override{{Key: "vip", Limits: limits("50/13h token-bucket")}}
			g := newGate(t, st, gate.Options{}, p)
			fillLimits(t, st)
			for _, key := range []string{"ann", "vip"} {
				if v := mustAllow(t, g, gate.Request{Key: key, Cost: 1}); !v.Decision.Allowed {
					t.Errorf("%s: got %+v, want it allowed", key, v)
				}
			}
			before := limitsNamed(m, "login")
			for i := range 300 { // the capacity for files no longer in force is released
				next := policyOf("login", fmt.Sprintf("6/%ds sliding-log", i+100))
				if err := g.Reload(&config.File{Policies: []config.Policy{next}}); err != nil {
					t.Fatal(err)
				}
			}
			if v := mustAllow(t, g, gate.Request{Key: "ann", Cost: 1}); !v.Decision.Allowed {
				t.Errorf("after a reload: got %+v, want it allowed", v)
			}
			if now := limitsNamed(m, "login"); now > before+1 { // the earlier limits have live keys
				t.Errorf("%d limits of the policy are held after 300 reloads, %d before; want those of replaced files released", now, before)
			}
		})
	}
}
