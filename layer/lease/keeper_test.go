package lease_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
)

// What nobody spends goes back long before its end, for others may need it.
func TestIdleBlockGoesBack(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		_, admitted := r.warm()
		testkit.Pass(200 * time.Millisecond)
		if out := r.lease.Stats().Out; out != 0 {
			t.Errorf("%d units are still out", out)
		}
		r.want(1000-admitted, "when nothing was asked for,")
		if d := testkit.Must(r.leased.Allow(ctx, "key"))(t); !d.Allowed {
			t.Errorf("%+v after the block went back", d)
		}
	})
}

// What goes back makes room: a refusal is not repeated from memory then.
func TestWhatGoesBackEndsTheRefusal(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		atHand, _ := r.warm()
		testkit.Must(r.direct.AllowN(ctx, "key", r.remaining()))(t) // all that is left is at hand here
		testkit.Pass(60 * time.Millisecond)
		if d := testkit.Must(r.leased.AllowN(ctx, "key", atHand+1))(t); d.Allowed {
			t.Fatalf("%+v for one more than there is", d)
		}
		testkit.Must(r.direct.Refund(ctx, "key", 1))(t)
		testkit.Pass(45 * time.Millisecond) // the block lies idle, and goes back
		if out := r.lease.Stats().Out; out != 0 {
			t.Fatalf("%d units are still out", out)
		}
		if d := testkit.Must(r.leased.AllowN(ctx, "key", atHand+1))(t); !d.Allowed {
			t.Errorf("%+v, although all has been given back", d)
		}
	})
}

// A key that is asked for now and then keeps its block.
func TestBlockInUseStays(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		atHand, _ := r.warm()
		testkit.Pass(50 * time.Millisecond)
		for range min(5, atHand-1) {
			if d := testkit.Must(r.leased.Allow(ctx, "key"))(t); !d.Allowed || !d.Flags.Leased() {
				t.Fatalf("%+v; want it from the block", d)
			}
			testkit.Pass(50 * time.Millisecond)
		}
	})
}

// When an answer about one key shows that the store's clock was set ahead, the parts of all blocks may have ended.
func TestStepOfTheStoresClockEndsAllBlocks(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		atHand, _ := r.warm()
		ask := func() int64 {
			testkit.Must(r.leased.Allow(ctx, "other"))(t)
			testkit.Pass(0)
			return r.lease.Stats().Out
		}
		for n := 0; ask() <= atHand; n++ {
			if n == 200 {
				t.Fatal("another key that is asked for often has no block")
			}
		}
		r.gate.ahead.Store((3 * time.Second).Microseconds())
		for n := 0; ask() > 0; n++ {
			if n == 200 {
				t.Fatalf("%d units are out after 200 more were asked for", r.lease.Stats().Out)
			}
		}
	})
}
