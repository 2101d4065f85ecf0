package failure_test

import (
	"context"
	"fmt"
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

// optimisticFaults are ways in which a store fails, until it is healed.
func optimisticFaults() map[string]func(h *optimisticRig) {
	hang := func(ctx context.Context, batch []store.Request) error {
		<-ctx.Done()
		return batches.FailAll(batch, ctx.Err())
	}
	writes := func(fault func(context.Context, []store.Request) error) func(h *optimisticRig) {
		return func(h *optimisticRig) {
			h.inner.do(func(ctx context.Context, batch []store.Request) error {
				if batch[0].Op == rule.Peek {
					return h.inner.Store.Apply(ctx, batch)
				}
				return fault(ctx, batch)
			})
		}
	}
	fails := func(errs ...error) func(context.Context, []store.Request) error {
		err := fmt.Errorf("remote: %w", joined(errs))
		return func(_ context.Context, batch []store.Request) error { return batches.FailAll(batch, err) }
	}
	return map[string]func(h *optimisticRig){
		"connections are refused": func(h *optimisticRig) { h.inner.fail(errDown) },
		"connections break":       func(h *optimisticRig) { h.inner.fail(errBroken) },
		"no answers":              func(h *optimisticRig) { h.inner.hang() },
		"no writes are answered":  writes(hang),
		"read-only":               writes(fails(store.ErrDown, store.ErrUndone)),
		"read-only, unclear":      writes(fails(store.ErrDown)),
		"no connections":          func(h *optimisticRig) { h.inner.do(fails(store.ErrBusy, store.ErrUndone)) },
		"all but probes are refused": func(h *optimisticRig) {
			h.inner.do(func(ctx context.Context, batch []store.Request) error {
				if batch[0].Op == rule.Peek || isProbe(batch) {
					return h.inner.Store.Apply(ctx, batch)
				}
				return batches.FailAll(batch, fmt.Errorf("remote: no space for this key: %w", store.ErrUndone))
			})
		},
		"one row is locked, and then the store dies unseen": func(h *optimisticRig) {
			begin := time.Now()
			h.inner.do(func(ctx context.Context, batch []store.Request) error {
				if since := time.Since(begin); since < 2*time.Second && isProbe(batch) {
					return h.inner.Store.Apply(ctx, batch)
				}
				return hang(ctx, batch)
			})
		},
		"one row is locked": func(h *optimisticRig) {
			h.inner.do(func(ctx context.Context, batch []store.Request) error {
				locked := batch[0].Charges[0].Key == "k" && batch[0].Op != rule.Peek
				for locked && h.inner.handle.Load() != nil { // it waits for the lock
					if testkit.Delay(10 * time.Millisecond); ctx.Err() != nil {
						return batches.FailAll(batch, ctx.Err())
					}
				}
				return h.inner.Store.Apply(ctx, batch)
			})
		},
	}
}

// What was admitted without the store is charged when it is back, whatever was wrong with it.
func TestOptimisticChargesWhatItAdmitted(t *testing.T) {
	for name, fault := range optimisticFaults() {
		t.Run(name, func(t *testing.T) {
			runOptimistic(t, 5, func(t *testing.T, h *optimisticRig) {
				limit := bind(t, ten)
				c := store.Charge{Limit: limit, Key: "k", Cost: 1}
				fault(h)
				admitted := int64(0)
				for range 25 {
					if a, err := apply(t, h, rule.Take, c); err != nil || a.Flags&rule.FallbackOptimistic == 0 {
						t.Fatalf("got %+v, %v, want the flag FallbackOptimistic", a, err)
					} else if a.Allowed {
						admitted++
					}
					testkit.Pass(20 * time.Millisecond)
				}
				if admitted != 5 {
					t.Errorf("got %d admitted, want 5", admitted)
				}
				testkit.Pass(3 * time.Second)
				h.inner.heal()
				testkit.Pass(4 * time.Second)
				h.used(admitted, c)
				if got := h.Stats(); got.Charged != admitted || got.Owed != 0 || got.Unknown != 0 {
					t.Errorf("got %+v, want all charged", got)
				}
			})
		})
	}
}

// A row that is locked for longer than a charge may wait is charged when it is free.
func TestOptimisticRowLockedForLong(t *testing.T) {
	runOptimistic(t, 5, func(t *testing.T, h *optimisticRig) {
		large := ten
		large.Quota = 1000
		c := store.Charge{Limit: bind(t, large), Key: "k", Cost: 1}
		h.inner.do(func(ctx context.Context, batch []store.Request) error {
			if batch[0].Charges[0].Key == "k" && batch[0].Op != rule.Peek {
				<-ctx.Done()
				return batches.FailAll(batch, ctx.Err())
			}
			return h.inner.Store.Apply(ctx, batch)
		})
		admitted := int64(0)
		for i := range 100 {
			if i == 80 {
				h.inner.heal()
			}
			admitted += h.do(rule.Take, c).Granted
			testkit.Pass(200 * time.Millisecond)
		}
		if h.used(admitted, c); h.Stats().Unknown != 0 || h.Stats().Outages != 0 {
			t.Errorf("got %+v, want all charged, no outage", h.Stats())
		}
	})
}

// impatient is a layer that gives up after a second.
type impatient struct{ store.Store }

func (l impatient) Layer() layering.Layer { return layering.Coalesce }
func (l impatient) Unwrap() store.Store   { return l.Store }

func (l impatient) Apply(ctx context.Context, batch []store.Request) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return l.Store.Apply(ctx, batch)
}

// When an outage ends, a row that is locked for some seconds does not keep other keys from being charged.
func TestOptimisticRowLockedAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		h := &optimisticRig{newStore(t, impatient{inner}, store.FailOptimistic, failure.Options{Optimism: 5}), t, inner}
		free, locked := store.Charge{Limit: bind(t, ten), Key: "free", Cost: 1}, store.Charge{Limit: bind(t, ten), Key: "locked", Cost: 1}
		h.down()
		h.checkTakes(5, free)
		h.checkTakes(5, locked)
		until := time.Now().Add(4 * time.Second)
		inner.do(func(ctx context.Context, batch []store.Request) error {
			for i := range batch {
				if batch[i].Charges[0].Key == "locked" && batch[i].Op != rule.Peek {
					select {
					case <-time.After(time.Until(until)):
					case <-ctx.Done():
						return batches.FailAll(batch, ctx.Err())
					}
				}
			}
			return inner.Store.Apply(ctx, batch)
		})
		testkit.Pass(6 * time.Second)
		h.used(5, free)
		h.used(5, locked)
	})
}

// joined returns an error that wraps all of errs.
func joined(errs []error) error {
	err := errs[0]
	for _, next := range errs[1:] {
		err = fmt.Errorf("%w, %w", err, next)
	}
	return err
}

// A forced charge that was certainly not carried out is owed; of one that may have been it is unknown.
func TestOptimisticForcedCharge(t *testing.T) {
	for _, c := range []struct {
		err           error
		owed, unknown int64
	}{{errDown, 700, 0}, {errBroken, 0, 700}} {
		runOptimistic(t, 5, func(t *testing.T, h *optimisticRig) {
			large := ten
			large.Quota = 10_000
			charge := store.Charge{Limit: bind(t, large), Key: "k", Cost: 700}
			h.inner.fail(c.err)
			if a := h.do(rule.Charge, charge); a.Granted != 700 {
				t.Errorf("got %+v, want Granted 700", a)
			}
			if got := h.Stats(); got.Owed != c.owed || got.Unknown != c.unknown {
				t.Errorf("got %+v, want %d owed, %d unknown", got, c.owed, c.unknown)
			}
			h.up()
			h.used(c.owed, charge)
		})
	}
}
