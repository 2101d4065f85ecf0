package failure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// optimisticRig is a layer in the mode FailOptimistic over a store whose health the test controls.
type optimisticRig struct {
	*failure.Store
	t     *testing.T
	inner *remote
}

// runOptimistic runs a script with a layer that may admit k units of a key.
func runOptimistic(t *testing.T, k int64, script func(t *testing.T, h *optimisticRig)) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		h := &optimisticRig{newStore(t, inner, store.FailOptimistic, failure.Options{Optimism: k}), t, inner}
		script(t, h)
		inner.heal()
		if err := h.Close(t.Context()); err != nil {
			t.Errorf("closed: %v", err)
		}
	})
}

// down makes the store fail, and opens the breaker.
func (h *optimisticRig) down() {
	h.inner.fail(errDown)
	testkit.Pass(time.Second)
	if _, err := apply(h.t, h, rule.Peek, store.Charge{Limit: bind(h.t, ten), Key: "somebody"}); err != nil {
		h.t.Fatal(err)
	}
	if !h.Stats().Down {
		h.t.Fatal("the layer still calls the store")
	}
}

// up makes the store answer, and waits until the layer has charged what it owes.
func (h *optimisticRig) up() {
	h.inner.heal()
	testkit.Pass(2 * time.Second)
	if got := h.Stats(); got.Owed != 0 {
		h.t.Fatalf("owed: got %+v, want Owed 0", got)
	}
}

// do applies an operation with one charge, which must be answered, and returns the answer.
func (h *optimisticRig) do(op rule.Op, c store.Charge) rule.Answer {
	h.t.Helper()
	a, err := apply(h.t, h, op, c)
	if err != nil {
		h.t.Fatalf("%v: %v", op, err)
	}
	return a
}

// checkTakes expects n such charges to be admitted without the store, and the next one to be refused.
func (h *optimisticRig) checkTakes(n int, c store.Charge) {
	h.t.Helper()
	for i := range n {
		if a := h.do(rule.Take, c); !a.Allowed || a.Flags != rule.FallbackOptimistic || a.Granted != c.Cost || a.At >= 0 {
			h.t.Errorf("take %d of %d: got %+v, want allowed by the fallback, Granted %d", i+1, n, a, c.Cost)
		}
	}
	if a := h.do(rule.Take, c); a.Allowed || a.Flags != rule.FallbackOptimistic || a.Granted != 0 || a.RetryAfter <= 0 {
		h.t.Errorf("after %d takes: got %+v, want refused by the fallback for some time", n, a)
	}
}

// used expects want units of a key to be used in the store itself.
func (h *optimisticRig) used(want int64, c store.Charge) {
	h.t.Helper()
	c.Cost = 0
	a, err := apply(h.t, h.inner.Store, rule.Peek, c)
	if got := c.Limit.Rule().Capacity() - a.Remaining; err != nil || got != want {
		h.t.Errorf("got %d units used in the store, want %d (%v)", got, want, err)
	}
}

// In an outage k units of a key are admitted, by Apply or TakeSingle; the store then receives them without any other
// request, and k more are admitted in the next outage.
func TestOptimisticAnswers(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
				c := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1}
				for range 2 {
					h.down()
					for left := range []int64{3, 2, 1, 0} {
						a, err := way(t.Context(), h, c)
						want := rule.Answer{Allowed: left < 3, Flags: rule.FallbackOptimistic, Granted: 1, Remaining: int64(2 - left), At: a.At}
						switch left {
						case 2:
							want.NextAfter = 1_000_000
						case 3:
							want.Granted, want.Remaining, want.RetryAfter = 0, 0, 1_000_000
						}
						if err != nil || a != want || a.At >= 0 {
							t.Errorf("got  %+v, %v\nwant %+v", a, err, want)
						}
					}
					if got := h.Stats(); got.Owed != 3 {
						t.Errorf("owed: got %+v, want Owed 3", got)
					}
					h.up()
				}
				h.used(6, c)
				if got := h.Stats(); got.Charged != 6 || got.Unknown != 0 || got.Down {
					t.Errorf("after the outages: got %+v, want Charged 6, Unknown 0, not Down", got)
				}
			})
		})
	}
}

// A cost larger than k is refused, one larger than the limit is refused forever, and a k above the limit is the limit.
func TestOptimisticCosts(t *testing.T) {
	runOptimistic(t, 4, func(t *testing.T, h *optimisticRig) {
		h.down()
		c := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 5}
		h.checkTakes(0, c)
		c.Cost = 11
		if a := h.do(rule.Take, c); a.Allowed || a.RetryAfter != rule.Never {
			t.Errorf("11 of 10: got %+v, want refused, RetryAfter Never", a)
		}
		if a := h.do(rule.TakeUpTo, c); !a.Allowed || a.Granted != 4 {
			t.Errorf("up to 11: got %+v, want allowed, Granted 4", a)
		}
		if a := h.do(rule.TakeUpTo, c); a.Allowed || a.Granted != 0 || a.RetryAfter == rule.Never {
			t.Errorf("up to 11 again: got %+v, want refused for some time, Granted 0", a)
		}
	})
	runOptimistic(t, 100, func(t *testing.T, h *optimisticRig) {
		h.down()
		h.checkTakes(5, store.Charge{Limit: bind(t, bucket), Key: "k", Cost: 1})
		h.checkTakes(10, store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1})
	})
}

// A key that the store found exhausted is not admitted until the store's own answer says that units are free, or until
// units are refunded. Each script has its own layer: notes of two keys may replace one another.
func TestOptimisticAfterExhaustion(t *testing.T) {
	limit := slidegate.Limit{Name: "minute", Algorithm: slidegate.SlidingLog, Quota: 5, Window: time.Minute}
	type taker func(cost int64) rule.Answer
	scripts := map[string]func(t *testing.T, h *optimisticRig, take taker){
		"full": func(t *testing.T, h *optimisticRig, take taker) {
			take(5)  // leaves nothing
			h.down() // a second later
			if a := take(1); a.Allowed || a.RetryAfter != 59_000_000 {
				t.Errorf("an exhausted key: got %+v, want refused, RetryAfter 59000000", a)
			}
			testkit.Pass(59*time.Second - time.Microsecond)
			if a := take(1); a.Allowed || a.RetryAfter != 1 {
				t.Errorf("just before units are free: got %+v, want refused, RetryAfter 1", a)
			}
			testkit.Pass(time.Microsecond)
			if a := take(3); !a.Allowed {
				t.Errorf("when units are free: got %+v, want allowed", a)
			}
		},
		"refused": func(t *testing.T, h *optimisticRig, take taker) {
			take(4) // leaves one,
			take(2) // which is too few
			h.down()
			if a := take(2); a.Allowed || a.RetryAfter != 59_000_000 {
				t.Errorf("a cost above the remaining units: got %+v, want refused, RetryAfter 59000000", a)
			}
			if a := take(1); !a.Allowed {
				t.Errorf("a cost of the remaining units: got %+v, want allowed", a)
			}
		},
		"refunded": func(t *testing.T, h *optimisticRig, take taker) {
			take(5)
			h.do(rule.GiveBack, store.Charge{Limit: bind(t, limit), Key: "k", Cost: 5})
			h.down()
			if a := take(3); !a.Allowed {
				t.Errorf("after a refund: got %+v, want allowed", a)
			}
		},
	}
	for name, way := range ways {
		for title, script := range scripts {
			t.Run(name+"/"+title, func(t *testing.T) {
				runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
					script(t, h, func(cost int64) rule.Answer {
						a, err := way(t.Context(), h, store.Charge{Limit: bind(t, limit), Key: "k", Cost: cost})
						if err != nil {
							t.Fatal(err)
						}
						return a
					})
				})
			})
		}
	}
}

// If a charge exhausted the key at the store, nothing is admitted until units are free there.
func TestOptimisticAfterExhaustingCharge(t *testing.T) {
	runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
		limit := bind(t, slidegate.Limit{Name: "minute", Algorithm: slidegate.SlidingLog, Quota: 5, Window: time.Minute})
		c := store.Charge{Limit: limit, Key: "k", Cost: 1}
		h.down()
		h.checkTakes(3, c)
		others := c
		others.Cost = 4
		if _, err := apply(t, h.inner.Store, rule.Take, others); err != nil { // another process
			t.Fatal(err)
		}
		h.up() // charges 3 beyond the quota, within 2 s
		h.used(5, c)
		h.down()
		a := h.do(rule.Take, c)
		if a.Allowed || a.RetryAfter < 55_000_000 || a.RetryAfter > 60_000_000 {
			t.Fatalf("after an exhausting charge: got %+v, want refused for 55s to 60s", a)
		}
		testkit.Pass((a.RetryAfter - 1).Duration())
		h.checkTakes(0, c)
		testkit.Pass(time.Microsecond)
		h.checkTakes(3, c)
	})
}

// A charge that was sent and not answered counts until it is a window and a part old, and is never sent again.
func TestOptimisticChargeWithoutAnAnswer(t *testing.T) {
	limit := slidegate.Limit{Name: "whole", Algorithm: slidegate.SlidingWindow, Quota: 10, Window: time.Hour, Segments: 6, Overlap: slidegate.OverlapWhole}
	for _, executed := range []bool{true, false} {
		runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
			c := store.Charge{Limit: bind(t, limit), Key: "k", Cost: 1}
			h.down()
			begin := time.Now()
			for range 3 {
				h.do(rule.Take, c)
			}
			var charges int
			h.inner.do(func(ctx context.Context, batch []store.Request) error {
				if batch[0].Op != rule.Charge || isProbe(batch) {
					return h.inner.Store.Apply(ctx, batch)
				}
				charges++
				if executed {
					_ = h.inner.Store.Apply(ctx, batch)
					return errBroken // and does not report which request failed
				}
				return batches.FailAll(batch, errBroken)
			})
			testkit.Pass(3 * time.Second)
			if got := h.Stats(); charges != 1 || got.Unknown != 3 || got.Owed != 0 || got.Charged != 0 {
				t.Errorf("%d charges, %+v", charges, got)
			}
			h.down()
			testkit.Pass(time.Until(begin.Add(70*time.Minute - time.Microsecond)))
			h.checkTakes(0, c)
			testkit.Pass(time.Microsecond)
			h.checkTakes(3, c)
			h.up()
			if charges != 1 || h.Stats().Charged != 3 {
				t.Errorf("%d lost charges, %+v", charges, h.Stats())
			}
		})
	}
}

// Units that were admitted in short succession expire together, with the last of them.
func TestOptimisticGrainsGrowOldWithTheLast(t *testing.T) {
	runOptimistic(t, 2, func(t *testing.T, h *optimisticRig) {
		c := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1} // which may count for a part longer than the window, a minute
		h.down()
		h.do(rule.Take, c)
		testkit.Pass(50 * time.Second)
		last := time.Now()
		h.do(rule.Take, c)
		testkit.Pass(time.Until(last.Add(61*time.Minute - time.Microsecond)))
		h.checkTakes(0, c)
		testkit.Pass(time.Microsecond)
		h.checkTakes(2, c)
	})
}

// Several charges are admitted together or not at all; groups and keys are separate.
func TestOptimisticSeveral(t *testing.T) {
	runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
		both := []store.Charge{{Limit: bind(t, ten), Key: "k", Cost: 1}, {Limit: bind(t, bucket), Key: "k", Cost: 1}}
		h.down()
		h.do(rule.Take, store.Charge{Limit: bind(t, bucket), Key: "k", Cost: 1})
		send := func(op rule.Op, group string) []rule.Answer {
			r := store.Request{Op: op, Group: group, Charges: both, Answers: make([]rule.Answer, 2)}
			if err := h.Apply(t.Context(), []store.Request{r}); err != nil {
				t.Fatal(err)
			}
			return r.Answers
		}
		for i, want := range []bool{true, true, false, false} {
			if a := send(rule.Take, ""); !a[0].Allowed || a[1].Allowed != want || a[0].Granted != a[1].Granted || (a[0].Granted == 1) != want {
				t.Errorf("request %d: got %+v, want the second limit to allow it: %t", i+1, a, want)
			}
		}
		if a := send(rule.TakeUpTo, "g"); !a[0].Allowed || !a[1].Allowed {
			t.Errorf("another group: got %+v, want both allowed", a)
		}
		h.up()
		h.used(2, both[0])
		h.used(3, both[1])
	})
}

// Memory is bounded: beyond the bound new keys are refused, until others are too old to count.
func TestOptimisticMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		inner.fail(errDown)
		st := newStore(t, inner, store.FailOptimistic, failure.Options{Optimism: 5, MaxPending: 20})
		admitted := 0
		for i := range 30 {
			a, err := apply(t, st, rule.Take, store.Charge{Limit: bind(t, ten), Key: fmt.Sprint(i), Cost: 1})
			if err != nil || !a.Allowed && a.RetryAfter <= 0 {
				t.Fatalf("key %d: %+v, %v", i, a, err)
			}
			if a.Allowed {
				admitted++
			}
		}
		if admitted != 10 {
			t.Errorf("got %d keys admitted, want the 10 that there is memory for", admitted)
		}
		if a, err := apply(t, st, rule.Peek, store.Charge{Limit: bind(t, ten), Key: "new", Cost: 1}); err != nil || !a.Allowed {
			t.Errorf("a peek, which needs no memory: got %+v, %v, want allowed", a, err)
		}
		testkit.Pass(61 * time.Minute)
		if a, err := apply(t, st, rule.Take, store.Charge{Limit: bind(t, ten), Key: "new", Cost: 1}); err != nil || !a.Allowed {
			t.Errorf("when all others have expired: got %+v, %v, want allowed", a, err)
		}
		if err := st.Close(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("closed in an outage: %v", err)
		}
	})
}

// Close charges what is owed, and from then on nothing is admitted without the store.
func TestOptimisticClose(t *testing.T) {
	runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
		c := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 1}
		h.down()
		h.checkTakes(3, c)
		h.inner.heal()
		if err := h.Close(t.Context()); err != nil {
			t.Errorf("closed: %v", err)
		}
		h.used(3, c)
		h.inner.fail(errDown)
		c.Key = "another"
		testkit.Pass(time.Second)
		h.checkTakes(0, c)
		if _, err := apply(t, h, rule.Charge, c); !errors.Is(err, failure.ErrUnavailable) {
			t.Errorf("a charge after Close: %v", err)
		}
	})
}

// What was admitted counts for as long as under the slowest limit of the key, although the key was last seen under a faster one, as
// after a change of its plan.
func TestOptimismCountsForTheLongestTime(t *testing.T) {
	slow := slidegate.Limit{Name: "plan", Algorithm: slidegate.TokenBucket, Quota: 10, Burst: 10, Window: time.Hour}
	fast := slow
	fast.Quota = 1000
	runOptimistic(t, 3, func(t *testing.T, h *optimisticRig) {
		c := store.Charge{Limit: bind(t, slow), Key: "k", Cost: 1}
		h.down()
		h.do(rule.Take, c)
		h.do(rule.Take, c)
		h.checkTakes(1, store.Charge{Limit: bind(t, fast), Key: "k", Cost: 1})
		testkit.Pass(90 * time.Minute) // longer than a unit counts under the fast limit, but not under the slow one
		h.checkTakes(0, c)
		testkit.Pass(time.Hour)
		h.checkTakes(3, c)
	})
}
