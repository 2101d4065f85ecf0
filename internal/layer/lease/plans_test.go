package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
)

// plan returns a limiter of another quota that shares the rig's counts.
func (r *rig) plan(limit string) *slidegate.Limiter {
	return testkit.Must(r.leased.With(slidegate.MustParseLimit(limit)))(r.t)
}

// A lease belongs to the limit that it was taken under: another quota ends it immediately.
func TestAnotherQuotaEndsTheLease(t *testing.T) {
	withLease(t, aThousand+" name=plan", func(r *rig) {
		_, admitted := r.warm()
		small := r.plan(fmt.Sprintf("%d/10s segments=10 overlap=whole lease name=plan", admitted))
		if d := testkit.Must(small.Allow(ctx, "key"))(t); d.Allowed {
			t.Errorf("%+v under a quota of %d, all of which were admitted before", d, admitted)
		}
		testkit.Pass(0)
		if out := r.lease.Stats().Outstanding; out != 0 {
			t.Errorf("%d units are leased under the other quota", out)
		}
		r.want(1000-admitted, "after the lease was returned")
	})
}

// Counts are kept when a plan becomes larger, and requests that were refused are admitted.
func TestLargerQuotaAdmitsAtOnce(t *testing.T) {
	withLease(t, "20/10s segments=10 overlap=whole lease name=plan", func(r *rig) {
		admitted := 0
		for testkit.Must(r.leased.Allow(ctx, "key"))(t).Allowed {
			admitted++
		}
		large := r.plan("50/10s segments=10 overlap=whole lease name=plan")
		for testkit.Must(large.Allow(ctx, "key"))(t).Allowed {
			admitted++
		}
		if admitted != 50 {
			t.Errorf("got %d admitted, want 50", admitted)
		}
	})
}

// A key that is requested under several quotas in turn would only take and return leases. It is not leased for a while.
func TestQuotasInTurn(t *testing.T) {
	withLease(t, aThousand+" name=plan", func(r *rig) {
		r.warm()
		other := r.plan("900/10s segments=10 overlap=whole lease name=plan")
		before := r.lease.Stats().Calls
		for range 100 {
			testkit.Must(other.Allow(ctx, "key"))(t)
			testkit.Must(r.leased.Allow(ctx, "key"))(t)
			testkit.Pass(time.Millisecond)
		}
		if calls := r.lease.Stats().Calls - before; calls > 10 {
			t.Errorf("%d calls for leases of 2 quotas in turn, want a few", calls)
		}
		if out := r.lease.Stats().Outstanding; out != 0 {
			t.Errorf("%d units are leased", out)
		}
	})
}

// A process that uses another quota ends no leases in other processes. Their units are spent at most once, and by the
// end of the part.
func TestAnotherQuotaElsewhere(t *testing.T) {
	withLease(t, aThousand+" name=plan", func(r *rig) {
		atHand, admitted := r.warm()
		elsewhere := lease.New(r.gate, lease.Options{})
		text := fmt.Sprintf("%d/10s segments=10 overlap=whole lease name=plan", admitted+atHand)
		small := testkit.Must(slidegate.New(elsewhere, slidegate.MustParseLimit(text)))(t)
		if d := testkit.Must(small.Allow(ctx, "key"))(t); d.Allowed {
			t.Errorf("%+v under %s, when %d are used and %d leased", d, text, admitted, atHand)
		}
		if d := testkit.Must(r.leased.AllowN(ctx, "key", atHand))(t); !d.Allowed || d.Flags&rule.Leased == 0 {
			t.Errorf("%+v; want what is at hand", d)
		}
	})
}

// While a limit is reloaded, one process has a larger quota already and another still returns a lease of the smaller one. That
// returns the units of the lease, and nothing else that was used.
func TestLeaseReturnedUnderTheSmallerQuota(t *testing.T) {
	withLease(t, "1000/10s token-bucket lease name=plan", func(r *rig) {
		atHand, _ := r.warm()
		if atHand == 0 {
			t.Fatal("nothing is leased: the test proves nothing")
		}
		large := testkit.Must(slidegate.New(r.gate, slidegate.MustParseLimit("1000000/10s token-bucket lease name=plan")))(t)
		if d := testkit.Must(large.AllowUpTo(ctx, "key", 1_000_000))(t); d.Granted < 900_000 {
			t.Fatalf("%+v under the larger quota, want almost all of it", d)
		}
		if err := r.lease.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if returned := r.lease.Stats().Returned; returned == 0 || returned > atHand {
			t.Fatalf("%d units were returned, want at most the %d that were leased", returned, atHand)
		}
		if d := testkit.Must(large.AllowUpTo(ctx, "key", 1_000_000))(t); d.Granted > atHand {
			t.Errorf("%d units were free after a lease of %d was returned", d.Granted, atHand)
		}
	})
}
