package lease_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
)

// Unspent units are returned long before the lease ends, because others may need them.
func TestIdleLeaseIsReturned(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		_, admitted := r.warm()
		testkit.Pass(200 * time.Millisecond)
		if out := r.lease.Stats().Outstanding; out != 0 {
			t.Errorf("%d units are still leased", out)
		}
		r.want(1000-admitted, "after an idle time")
		if d := testkit.Must(r.leased.Allow(ctx, "key"))(t); !d.Allowed {
			t.Errorf("%+v after the lease was returned", d)
		}
	})
}

// Returned units end a remembered refusal.
func TestReturnEndsRefusal(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		atHand, _ := r.warm()
		testkit.Must(r.direct.AllowN(ctx, "key", r.remaining()))(t) // the rest is leased here
		testkit.Pass(60 * time.Millisecond)
		if d := testkit.Must(r.leased.AllowN(ctx, "key", atHand+1))(t); d.Allowed {
			t.Fatalf("%+v for one unit more than there is", d)
		}
		testkit.Must(r.direct.Refund(ctx, "key", 1))(t)
		testkit.Pass(45 * time.Millisecond) // the lease is idle, and is returned
		if out := r.lease.Stats().Outstanding; out != 0 {
			t.Fatalf("%d units are still leased", out)
		}
		if d := testkit.Must(r.leased.AllowN(ctx, "key", atHand+1))(t); !d.Allowed {
			t.Errorf("%+v, although all units were returned", d)
		}
	})
}

// A key that is requested now and then keeps its lease.
func TestLeaseInUseIsKept(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		atHand, _ := r.warm()
		testkit.Pass(50 * time.Millisecond)
		for range min(5, atHand-1) {
			if d := testkit.Must(r.leased.Allow(ctx, "key"))(t); !d.Allowed || d.Flags&rule.Leased == 0 {
				t.Fatalf("%+v; want it leased", d)
			}
			testkit.Pass(50 * time.Millisecond)
		}
	})
}

// When an answer about one key shows that the store's clock was set, the parts of all leases may have ended. It shows in the time of
// the answer, or in its flag.
func TestClockStepEndsAllLeases(t *testing.T) {
	for name, step := range map[string]func(g *gate){
		"ahead": func(g *gate) { g.ahead.Store((3 * time.Second).Microseconds()) },
		"back":  func(g *gate) { g.moved.Store(true) },
	} {
		t.Run(name, func(t *testing.T) { withLease(t, aThousand, func(r *rig) { r.endsAllLeases(t, step) }) })
	}
}

func (r *rig) endsAllLeases(t *testing.T, step func(*gate)) {
	atHand, _ := r.warm()
	take := func() int64 {
		testkit.Must(r.leased.Allow(ctx, "other"))(t)
		testkit.Pass(0)
		return r.lease.Stats().Outstanding
	}
	for n := 0; take() <= atHand; n++ {
		if n == 200 {
			t.Fatal("another busy key has no lease")
		}
	}
	step(r.gate)
	for n := 0; take() > 0; n++ {
		if n == 200 {
			t.Fatalf("%d units are leased after 200 more were requested", r.lease.Stats().Outstanding)
		}
	}
}
