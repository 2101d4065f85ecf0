package lease_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

const aThousand = "1000/10s segments=10 overlap=whole lease"

func TestAllowSpendsTheLease(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		atHand, _ := r.warm()
		before, calls := r.remaining(), r.gate.calls.Load()
		d := testkit.Must(r.leased.AllowN(ctx, "key", atHand-3))(t)
		if !d.Allowed || d.Flags&rule.Leased == 0 || d.Granted != atHand-3 || d.Remaining != 3 {
			t.Errorf("with %d at hand: got %+v; want it leased, and 3 left", atHand, d)
		}
		if charged := rule.Micros(r.began.UnixMicro()); d.At != charged {
			t.Errorf("got At %d, want %d, when the lease was charged", d.At, charged)
		}
		if got := r.gate.calls.Load() - calls; got > 1 { // the next lease may be requested
			t.Errorf("the store was called %d times", got)
		}
		if r.remaining() > before {
			t.Errorf("the store has %d left, and had %d before", r.remaining(), before)
		}
	})
}

func TestReserveFromTheLease(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		r.warm()
		charged := r.remaining()
		reserved, d, err := r.leased.Reserve(ctx, "key", 4)
		if err != nil || !d.Allowed || d.Flags&rule.Leased == 0 {
			t.Fatalf("%+v, error %v; want it leased", d, err)
		}
		r.want(charged, "after a reservation from the lease")
		s := testkit.Must(r.leased.SettleAll(ctx, reserved, 1))(t)
		r.want(charged+3, "after 1 of 4 was used")
		again := testkit.Must(r.leased.Cancel(ctx, reserved))(t)
		r.want(charged+3, "after it is settled once more")
		if s.Repeated || !again.Repeated {
			t.Errorf("settled: %+v, and again: %+v; want the second marked as repeated", s, again)
		}
	})
}

func TestSettleUpward(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		r.warm()
		reserved, _, err := r.leased.Reserve(ctx, "key", 2)
		if err != nil {
			t.Fatal(err)
		}
		charged := r.remaining()
		testkit.Must(r.leased.SettleAll(ctx, reserved, 12))(t)
		r.want(charged-10, "after 12 were used instead of 2")
	})
}

// Cancelled units are returned to the part in which the lease was charged, although time has passed.
func TestCancelReturnsToThePartOfTheCharge(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		r.warm()
		reserved, d, err := r.leased.Reserve(ctx, "key", 4)
		if err != nil || d.Flags&rule.Leased == 0 {
			t.Fatalf("%+v, error %v; want it leased", d, err)
		}
		r.passUntil(1500 * time.Millisecond) // the second part, and what was left has been returned
		before := r.remaining()
		testkit.Must(r.direct.AllowN(ctx, "key", 10))(t)
		testkit.Must(r.leased.Cancel(ctx, reserved))(t)
		r.want(before-10+4, "after 10 were taken and 4 returned")
		r.passUntil(11500 * time.Millisecond) // only the second part is left of all that
		r.want(1000-10, "after the first part has passed")
	})
}

func TestPeekAddsWhatIsAtHand(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		r.warm()
		want := r.remaining() + r.lease.Stats().Outstanding
		if d := testkit.Must(r.leased.Peek(ctx, "key", 1))(t); d.Remaining != want || d.Flags&rule.Leased == 0 {
			t.Errorf("%+v; want %d remaining, leased", d, want)
		}
		atHand := r.lease.Stats().Outstanding
		testkit.Must(r.direct.AllowN(ctx, "key", r.remaining()))(t)
		if d := testkit.Must(r.leased.Peek(ctx, "key", atHand))(t); !d.Allowed || d.Remaining != atHand {
			t.Errorf("%+v; want %d allowed, which are at hand", d, atHand)
		}
		if d := testkit.Must(r.leased.Peek(ctx, "key", atHand+1))(t); d.Allowed {
			t.Errorf("%+v; want it refused, with %d at hand", d, atHand)
		}
	})
}

func TestWait(t *testing.T) {
	withLease(t, "100/1s algorithm=fixed-window lease", func(r *rig) {
		_, admitted := r.warm()
		for ; testkit.Must(r.leased.Allow(ctx, "key"))(t).Allowed; admitted++ {
		}
		if admitted != 100 {
			t.Fatalf("got %d admitted, want 100", admitted)
		}
		if err := r.leased.Wait(ctx, "key", 7); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(r.began); waited < time.Second || waited > 1100*time.Millisecond {
			t.Errorf("admitted after %v, want it at the end of the window, after a second", waited)
		}
	})
}

// A refusal that is repeated here is forgotten when units are returned.
func TestRefund(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		r.warm()
		testkit.Must(r.leased.AllowUpTo(ctx, "key", 1000))(t)
		for testkit.Must(r.leased.Allow(ctx, "key"))(t).Allowed {
		}
		calls := r.gate.calls.Load()
		d := testkit.Must(r.leased.Allow(ctx, "key"))(t)
		if d.Allowed || d.Flags&rule.Leased == 0 || r.gate.calls.Load() != calls {
			t.Errorf("%+v with %d calls; want it refused here", d, r.gate.calls.Load()-calls)
		}
		testkit.Must(r.leased.Refund(ctx, "key", 3))(t)
		for i := range 4 {
			if d := testkit.Must(r.leased.Allow(ctx, "key"))(t); d.Allowed != (i < 3) {
				t.Errorf("request %d after 3 were refunded: got %+v, want allowed %t", i, d, i < 3)
			}
		}
	})
}

func TestAllowUpTo(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		atHand, admitted := r.warm()
		d := testkit.Must(r.leased.AllowUpTo(ctx, "key", atHand))(t)
		if d.Granted != atHand || d.Flags&rule.Leased == 0 {
			t.Errorf("%+v; want the %d at hand", d, atHand)
		}
		admitted += d.Granted
		testkit.Pass(0)
		for range 10 { // what is at hand comes last
			d = testkit.Must(r.leased.AllowUpTo(ctx, "key", 1000))(t)
			admitted += d.Granted
		}
		if d.Allowed || admitted != 1000 {
			t.Errorf("got %d admitted and then %+v; want the whole quota", admitted, d)
		}
	})
}

// TakeUpTo grants the same to all limits of a request, even if their costs differ.
func TestAllowUpToOfSeveral(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		claims := func(costs ...int64) slidegate.Claims {
			return r.leased.For(
				slidegate.Claim{Limit: slidegate.MustParseLimit(aThousand + " name=one"), Key: "key", Cost: costs[0]},
				slidegate.Claim{Limit: slidegate.MustParseLimit(aThousand + " name=other"), Key: "key", Cost: costs[1]},
			)
		}
		for range 20 {
			testkit.Must(claims(1, 1).Allow(ctx))(t)
			testkit.Pass(0)
		}
		d := testkit.Must(claims(3, 1).AllowUpTo(ctx))(t)
		if d.Flags&rule.Leased == 0 || d.Granted != 1 || d.Answers[0].Granted != 1 || d.Answers[1].Granted != 1 {
			t.Errorf("%+v; want 1 of each, leased", d)
		}
	})
}

// A request that one of its limits refuses takes nothing from the others.
func TestSeveralLimitsSpendFromAllOrNone(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		wide, narrow := slidegate.MustParseLimit(aThousand+" name=wide"), slidegate.MustParseLimit("20/10s segments=10 overlap=whole lease name=narrow")
		both := r.leased.For(
			slidegate.Claim{Limit: wide, Key: "key", Cost: 1},
			slidegate.Claim{Limit: narrow, Key: "key", Cost: 1},
		)
		admitted := int64(0)
		for range 100 {
			if testkit.Must(both.Allow(ctx))(t).Allowed {
				admitted++
			}
			testkit.Pass(time.Millisecond)
		}
		if admitted != 20 {
			t.Errorf("got %d admitted, want 20", admitted)
		}
		if err := r.lease.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if d := testkit.Must(r.direct.For(slidegate.Claim{Limit: wide, Key: "key", Cost: 1}).Peek(ctx))(t); d.Remaining != 1000-20 {
			t.Errorf("the wide limit has %d left, want %d", d.Remaining, 1000-20)
		}
	})
}

// A return with an unknown outcome is not sent again: the units might be returned twice.
func TestReturnIsNotRepeated(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		_, admitted := r.warm()
		times := 0
		r.gate.at(func(q *store.Request) error {
			if q.Op != rule.GiveBack {
				return nil
			}
			times++
			return errors.New("the connection was cut")
		})
		testkit.Pass(500 * time.Millisecond) // idle
		stats := r.lease.Stats()
		if times != 1 || stats.Outstanding != 0 || stats.Wasted != stats.Taken-stats.Spent {
			t.Errorf("returned %d times, %+v; want it once, and the rest wasted", times, stats)
		}
		r.want(1000-admitted-stats.Wasted, "after what was left is lost")
	})
}

// A call that counts once is asked of the store, which remembers it.
func TestOncePassesThrough(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		r.warm()
		before := r.remaining()
		for i := range 3 {
			d := testkit.Must(r.leased.Once("call").AllowN(ctx, "key", 4))(t)
			if !d.Allowed || d.Granted != 4 || d.Flags&rule.Leased != 0 || (d.Flags&rule.Repeated != 0) != (i > 0) {
				t.Errorf("call %d: got %+v, want 4 granted by the store, once", i, d)
			}
		}
		r.want(before-4, "after three equal calls")
		if s := testkit.Must(r.leased.Once("call").CancelCall(ctx, "key"))(t); s.Returned[0] != 4 {
			t.Errorf("cancelled: got %+v", s)
		}
		r.want(before, "after it was cancelled")
	})
}
