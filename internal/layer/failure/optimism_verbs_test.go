package failure_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Other operations during an outage.
func TestOptimisticVerbs(t *testing.T) {
	c := func(t *testing.T, cost int64) store.Charge {
		return store.Charge{Limit: bind(t, ten), Key: "k", Cost: cost}
	}
	t.Run("peek", func(t *testing.T) {
		runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
			h.down()
			for range 3 {
				if a := h.do(rule.Peek, c(t, 3)); !a.Allowed || a.Granted != 0 || a.Remaining != 3 {
					t.Errorf("a peek that fits: got %+v, want allowed, Granted 0, Remaining 3", a)
				}
				if a := h.do(rule.Peek, c(t, 4)); a.Allowed || a.RetryAfter != 1_000_000 {
					t.Errorf("a peek that does not fit: got %+v, want refused, RetryAfter 1000000", a)
				}
			}
			h.checkTakes(1, c(t, 3))
		})
	})
	t.Run("charge", func(t *testing.T) {
		runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
			h.inner.fail(errBroken)
			if a := h.do(rule.Charge, c(t, 1)); a.Granted != 1 { // it was sent
				t.Errorf("a charge that failed: got %+v, want Granted 1", a)
			}
			if a := h.do(rule.Charge, c(t, 5)); !a.Allowed || a.Granted != 5 || a.Remaining != 0 {
				t.Errorf("a charge that was not sent: got %+v, want allowed, Granted 5, Remaining 0", a)
			}
			h.checkTakes(0, c(t, 1))
			if got := h.Stats(); got.Owed != 5 || got.Unknown != 1 {
				t.Errorf("owed: got %+v, want Owed 5, Unknown 1", got)
			}
			h.up()
			h.used(5, c(t, 0))
		})
	})
	t.Run("refund", func(t *testing.T) {
		runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
			h.down()
			h.checkTakes(1, c(t, 3))
			if a := h.do(rule.GiveBack, c(t, 2)); a.Granted != 2 || a.Remaining != 2 {
				t.Errorf("refund of 2 of 3: got %+v, want Granted 2, Remaining 2", a)
			}
			if a := h.do(rule.GiveBack, c(t, 2)); a.Granted != 1 {
				t.Errorf("refund of 2 of 1: got %+v, want Granted 1", a)
			}
			h.checkTakes(1, c(t, 3))
			h.up()
			h.used(3, c(t, 0))
		})
	})
	t.Run("refund with a time", func(t *testing.T) {
		runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
			h.down()
			back := c(t, 2)
			back.At = h.do(rule.Take, back).At
			if a := h.do(rule.GiveBack, back); a.Granted != 2 {
				t.Errorf("refund during the outage: got %+v, want Granted 2", a)
			}
			back.At = h.do(rule.Take, back).At
			h.up()
			if a := h.do(rule.GiveBack, back); a.Granted != 0 || a.Flags != rule.FallbackOptimistic {
				t.Errorf("refund after it: got %+v, want Granted 0, the flag FallbackOptimistic", a)
			}
			h.used(2, c(t, 0))
		})
	})
	t.Run("reset", func(t *testing.T) {
		runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
			h.down()
			h.checkTakes(3, c(t, 1))
			if _, err := apply(t, h, rule.Reset, c(t, 0)); !errors.Is(err, failure.ErrUnavailable) {
				t.Errorf("a reset in the outage: %v", err)
			}
			h.checkTakes(0, c(t, 1))
			h.inner.do(func(ctx context.Context, batch []store.Request) error {
				if batch[0].Op == rule.Charge && !isProbe(batch) {
					return batches.FailAll(batch, errOne)
				}
				return h.inner.Store.Apply(ctx, batch)
			})
			testkit.Pass(2 * time.Second) // sent, without an answer
			h.do(rule.Reset, c(t, 0))
			h.down()
			h.checkTakes(3, c(t, 1))
		})
	})
}

// A reservation that was made without the store is settled once: units that were not sent to the store are returned,
// those that were sent stay, and usage beyond the cost is charged.
func TestOptimisticReservations(t *testing.T) {
	for _, c := range []struct {
		used, back, left int64
		late             bool
	}{
		{used: 1, back: 2, left: 1}, {used: 0, back: 3, left: 0}, {used: 3, back: 0, left: 3}, {used: 5, back: -2, left: 5},
		{used: 1, back: 0, left: 3, late: true}, {used: 5, back: -2, left: 5, late: true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
				h.down()
				b := newBooking(t, 7)
				if a, err := b.do(h, rule.Take); err != nil || !a[0].Allowed || !a[1].Allowed {
					t.Fatalf("reserved: got %+v, %v, want both allowed", a, err)
				}
				if c.late {
					h.up()
				}
				b.charges[0].Used = c.used
				for i := range 3 {
					a, err := b.do(h, rule.Settle)
					flags := rule.FallbackOptimistic
					if i > 0 {
						flags |= rule.Repeated
					}
					if err != nil || a[0].Granted != c.back || a[0].Flags != flags || !a[1].Allowed || (a[1].Granted == 1) != (i == 0) {
						t.Errorf("settled %d times: got %+v, %v, want Granted %d, flags %v", i+1, a, err, c.back, flags)
					}
					if i == 1 && !c.late {
						h.up()
					}
				}
				testkit.Pass(2 * time.Second)
				if got := b.used(h.inner.Store); got != [2]int64{c.left, 0} {
					t.Errorf("got %v used in the store", got)
				}
			})
		})
	}
}

// Slots are held here, up to k at a time, until they are released or their time to live is over. They are not sent to
// the store.
func TestOptimisticSlots(t *testing.T) {
	runOptimistic(t, 2, func(t *testing.T, h *optimisticRig) {
		h.down()
		var held []*booking
		take := func() bool {
			b := newBooking(t, rule.ID(len(held)+1))
			b.charges = b.charges[1:]
			a, err := b.do(h, rule.Take)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, b)
			return a[0].Allowed
		}
		if got := []bool{take(), take(), take()}; !slices.Equal(got, []bool{true, true, false}) {
			t.Errorf("three slots of two: got %v, want the third refused", got)
		}
		if a, err := held[0].do(h, rule.Take); err != nil || !a[0].Allowed {
			t.Errorf("a slot that is held already: got %+v, %v, want allowed", a, err)
		}
		testkit.Pass(40 * time.Second)
		for i, want := range []bool{true, true, false} {
			if i == 1 {
				continue // not renewed
			}
			if a, err := held[i].do(h, rule.Renew); err != nil || a[0].Allowed != want {
				t.Errorf("renewing slot %d: got %+v, %v, want allowed %t", i, a, err, want)
			}
		}
		testkit.Pass(20 * time.Second)
		if !take() || take() {
			t.Error("want one slot free after the time to live of the other")
		}
		if a, err := held[0].do(h, rule.Settle); err != nil || a[0].Granted != 1 {
			t.Errorf("released: got %+v, %v, want Granted 1", a, err)
		}
		if !take() || take() {
			t.Error("want one slot free after a release")
		}
		h.up()
		full := newBooking(t, 99)
		if got := full.used(h.inner.Store); got != [2]int64{} {
			t.Errorf("got %v used in the store", got)
		}
	})
}
