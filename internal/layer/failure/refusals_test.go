package failure_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// two is a log of two units per minute.
var two = slidegate.Limit{Name: "two", Algorithm: slidegate.SlidingLog, Quota: 2, Window: time.Minute}

// refusalRig is a layer over a store that is slow for some keys, and refuses a key that is used up.
type refusalRig struct {
	*failure.Store
	t     *testing.T
	inner *remote
	way   string
	late  atomic.Bool
}

// withUsedUpKey runs a script in each mode, and in each way, after a key of a limit of two was used up and refused.
func withUsedUpKey(t *testing.T, limit slidegate.Limit, script func(h *refusalRig, c store.Charge, mode store.Mode)) {
	for mode := store.FailOpen; mode < store.Modes; mode++ {
		for way := range ways {
			t.Run(fmt.Sprint(mode, "/", way), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := &refusalRig{t: t, way: way}
					h.inner = slowRows(t, func(string) bool { return h.late.Load() })
					h.Store = newStore(t, h.inner, mode, failure.Options{})
					c := store.Charge{Limit: bind(t, limit), Key: "k", Cost: 1}
					for i := range 3 {
						if a := h.take(c); a.Allowed != (i < 2) || a.Flags != 0 {
							t.Fatalf("take %d: got %+v", i, a)
						}
					}
					script(h, c, mode)
				})
			})
		}
	}
}

func (h *refusalRig) take(c store.Charge) rule.Answer {
	h.t.Helper()
	a, err := ways[h.way](h.t.Context(), h, c)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// down takes the store away.
func (h *refusalRig) down() {
	h.inner.fail(errDown)
	h.take(store.Charge{Limit: bind(h.t, ten), Key: "somebody", Cost: 1})
	if h.Health() == nil {
		h.t.Fatal("the breaker is closed")
	}
}

// wantRefused expects a refusal because the store refused it, for a time, in a mode; otherwise the mode's own decision.
func (h *refusalRig) wantRefused(refused bool, after time.Duration, c store.Charge, mode store.Mode) {
	h.t.Helper()
	before := h.Stats().Refusals
	a := h.take(c)
	if h.Stats().Refusals > before != refused {
		h.t.Errorf("got %+v, want it refused because the store had refused it: %t", a, refused)
	}
	if refused && (a.Allowed || a.RetryAfter.Duration() != after || a.ResetAfter != a.RetryAfter || a.Flags != rule.Cached|rule.FallbackLocal || a.At >= 0) {
		h.t.Errorf("got %+v, want a flagged refusal for %v", a, after)
	}
	if !refused && a.Allowed != (mode != store.FailClosed) {
		h.t.Errorf("got %+v, want the decision of %v", a, mode)
	}
}

// A key that the store has refused stays refused while the store is out, in every mode, until the time that the store gave, to
// the microsecond; other keys do not.
func TestRefusalsStay(t *testing.T) {
	withUsedUpKey(t, two, func(h *refusalRig, c store.Charge, mode store.Mode) {
		testkit.Pass(10 * time.Second)
		h.down()
		for range 5 {
			h.wantRefused(true, 50*time.Second, c, mode)
		}
		other := c
		other.Key = "other"
		h.wantRefused(false, 0, other, mode)
		testkit.Pass(50*time.Second - time.Microsecond)
		h.wantRefused(true, time.Microsecond, c, mode)
		testkit.Pass(time.Microsecond)
		h.wantRefused(false, 0, c, mode)
	})
}

// The same while the store is only late.
func TestRefusalsStayWhileLate(t *testing.T) {
	withUsedUpKey(t, two, func(h *refusalRig, c store.Charge, mode store.Mode) {
		h.late.Store(true)
		for i := range 6 { // the last ones are shed
			h.wantRefused(true, time.Minute-time.Duration(min(i+1, 3))*100*time.Millisecond, c, mode)
		}
		if got := h.Stats(); got.Outages != 0 || got.Shed != 3 {
			h.t.Errorf("got %+v, want no outage, 3 shed", got)
		}
		h.late.Store(false)
		testkit.Pass(time.Second)
		if a := h.take(c); a.Allowed || a.Flags != 0 {
			h.t.Errorf("got %+v, want the store's own refusal", a)
		}
	})
}

// A limit that counts refusals has refusals that stay, too.
func TestRefusalsOfCountedRefusals(t *testing.T) {
	counted := two
	counted.CountRefused = true
	withUsedUpKey(t, counted, func(h *refusalRig, c store.Charge, mode store.Mode) {
		h.down()
		h.wantRefused(true, time.Minute, c, mode)
	})
}

// Whatever returns units through this layer, and a change of the limit, ends a refusal.
func TestRefusalsEnd(t *testing.T) {
	for name, end := range map[string]func(h *refusalRig, c *store.Charge){
		"reset":  func(h *refusalRig, c *store.Charge) { h.do(rule.Reset, *c) },
		"refund": func(h *refusalRig, c *store.Charge) { h.do(rule.GiveBack, *c) },
		"settlement": func(h *refusalRig, c *store.Charge) {
			settled := *c
			settled.At = rule.Micros(time.Now().UnixMicro())
			h.do(rule.Settle, settled)
		},
		"another quota": func(h *refusalRig, c *store.Charge) {
			more := two
			more.Quota = 3
			c.Limit = bind(h.t, more)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withUsedUpKey(t, two, func(h *refusalRig, c store.Charge, mode store.Mode) {
				end(h, &c)
				h.down()
				h.wantRefused(false, 0, c, mode)
			})
		})
	}
	// In another mode it is the same limit.
	withUsedUpKey(t, two, func(h *refusalRig, c store.Charge, mode store.Mode) {
		h.down()
		c.Limit = c.Limit.In(store.FailLocal)
		h.wantRefused(true, time.Minute, c, store.FailLocal)
	})
	// A refund that the store did not get ends nothing.
	withUsedUpKey(t, two, func(h *refusalRig, c store.Charge, mode store.Mode) {
		h.down()
		back := request(rule.GiveBack, c)
		back.Charges[0].At = 1
		_ = h.Apply(h.t.Context(), []store.Request{back})
		h.wantRefused(true, time.Minute, c, mode)
	})
}

// do applies an operation at the store.
func (h *refusalRig) do(op rule.Op, c store.Charge) {
	h.t.Helper()
	r := request(op, c)
	r.ID = 7
	if err := h.Apply(h.t.Context(), []store.Request{r}); err != nil {
		h.t.Fatal(err)
	}
}

// The time counts from before the store was asked: the store's own refusal ends no earlier.
func TestRefusalsCountFromBeforeTheCall(t *testing.T) {
	for way := range ways {
		synctest.Test(t, func(t *testing.T) {
			inner := newRemote(t)
			h := &refusalRig{t: t, way: way, inner: inner, Store: newStore(t, inner, store.FailLocal, failure.Options{})}
			c := store.Charge{Limit: bind(t, two), Key: "k", Cost: 1}
			h.take(c)
			c.Cost = 2
			testkit.Pass(10 * time.Second)
			inner.slow(40 * time.Millisecond)
			if a := h.take(c); a.Allowed || a.RetryAfter.Duration() != 50*time.Second-40*time.Millisecond {
				t.Fatalf("got %+v, want refused for what is left of a minute when the store decided", a)
			}
			h.down() // 40ms after the call began
			h.wantRefused(true, 50*time.Second-80*time.Millisecond, c, store.FailLocal)
		})
	}
}

// A cost that the store would have admitted is not refused; a request with several charges is, if one of them would be.
func TestRefusalsByCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newRemote(t)
		st := newStore(t, inner, store.FailOpen, failure.Options{})
		h := &refusalRig{t: t, way: "Apply", inner: inner, Store: st}
		c := store.Charge{Limit: bind(t, ten), Key: "k", Cost: 7}
		free := store.Charge{Limit: bind(t, two), Key: "k", Cost: 1}
		h.take(c)
		h.take(c) // refused: 3 are left
		h.down()
		for _, s := range []struct {
			op      rule.Op
			cost    int64
			allowed bool
		}{
			{rule.Take, 6, true}, {rule.Take, 7, false}, {rule.Peek, 6, true}, {rule.Peek, 8, false}, {rule.TakeUpTo, 9, true}, {rule.Peek, 0, true},
		} {
			c.Cost = s.cost
			r := request(s.op, free, c)
			if err := st.Apply(t.Context(), []store.Request{r}); err != nil {
				t.Fatal(err)
			}
			if a := r.Answers; !a[0].Allowed || a[1].Allowed != s.allowed || !s.allowed && (a[0].Granted != 0 || a[1].Remaining != 3 || a[1].RetryAfter <= 0) {
				t.Errorf("%v of %d: got %+v, want allowed %t", s.op, s.cost, a, s.allowed)
			}
		}
		c.Cost = 11
		if a := h.take(c); a.Allowed || a.RetryAfter != rule.Never {
			t.Errorf("11 of 10: got %+v, want Never", a)
		}
	})
}

// Slots and leased units are returned at any time, so nothing is remembered about them.
func TestNoRefusalsOfSlotsAndLeases(t *testing.T) {
	leased := slidegate.Limit{Name: "leased", Quota: 2, Window: time.Minute, Algorithm: slidegate.SlidingWindow, Segments: 60, Overlap: slidegate.OverlapWhole, Lease: true}
	for _, limit := range []slidegate.Limit{leased, {Name: "slots", Algorithm: slidegate.InFlight, Quota: 2, Window: time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			inner := newRemote(t)
			h := &refusalRig{t: t, way: "Apply", inner: inner, Store: newStore(t, inner, store.FailLocal, failure.Options{})}
			c := store.Charge{Limit: bind(t, limit), Key: "k", Cost: 1}
			id := rule.ID(0)
			take := func() rule.Answer {
				id++
				r := request(rule.Take, c)
				r.ID = id
				if err := h.Apply(t.Context(), []store.Request{r}); err != nil {
					t.Fatal(err)
				}
				return r.Answers[0]
			}
			take()
			take()
			if a := take(); a.Allowed {
				t.Fatalf("%v: got %+v, want it used up", limit, a)
			}
			h.down()
			if a := take(); !a.Allowed || h.Stats().Refusals != 0 {
				t.Errorf("%v: got %+v, want an answer of Local", limit, a)
			}
		})
	}
}
