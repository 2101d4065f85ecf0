package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

func (r *rig) reset() {
	r.t.Helper()
	if err := r.leased.Reset(ctx, "key"); err != nil {
		r.t.Fatal(err)
	}
}

// A reset drops the lease: it was charged before, and the store has forgotten that. Returning it would free units that
// others take.
func TestResetDropsTheLease(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		r.warm()
		r.reset()
		if out := r.lease.Stats().Outstanding; out != 0 {
			t.Errorf("after a reset %d units are leased", out)
		}
		r.want(1000, "after a reset")
		testkit.Must(r.direct.AllowN(ctx, "key", 500))(t)
		testkit.Pass(500 * time.Millisecond)
		r.want(500, "after 500 were taken since")
	})
}

func TestResetFreesTheWholeQuota(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		r.warm()
		testkit.Must(r.leased.AllowUpTo(ctx, "key", 1000))(t)
		for testkit.Must(r.leased.Allow(ctx, "key"))(t).Allowed {
		}
		r.reset() // also of the remembered refusal
		admitted := 0
		for testkit.Must(r.leased.Allow(ctx, "key"))(t).Allowed {
			admitted++
			testkit.Pass(0)
		}
		if admitted != 1000 {
			t.Errorf("got %d admitted after a reset, want 1000", admitted)
		}
	})
}

// Transfers under way when a reset comes would be charged, or returned, after it.
func TestResetWaitsForTransfers(t *testing.T) {
	for _, op := range []rule.Op{rule.TakeUpTo, rule.GiveBack} {
		t.Run(op.String(), func(t *testing.T) {
			withLease(t, aThousand, func(r *rig) {
				atHand, _ := r.warm()
				release := r.gate.holdBack(op)
				if op == rule.TakeUpTo {
					testkit.Must(r.leased.AllowN(ctx, "key", atHand))(t) // the next lease is requested
					synctest.Wait()
				} else {
					testkit.Pass(200 * time.Millisecond) // idle units are returned
				}
				done := make(chan error, 1)
				go func() { done <- r.leased.Reset(ctx, "key") }()
				testkit.Pass(100 * time.Millisecond)
				if len(done) > 0 {
					t.Errorf("the reset did not wait for a %v", op)
				}
				release()
				if err := <-done; err != nil {
					t.Error(err)
				}
				r.want(1000, "after the reset")
				if out := r.lease.Stats().Outstanding; out != 0 {
					t.Errorf("after the reset %d units are leased", out)
				}
				testkit.Must(r.direct.AllowN(ctx, "key", 500))(t)
				testkit.Pass(500 * time.Millisecond)
				r.want(500, "after 500 were taken since")
			})
		})
	}
}

// A reset whose context ends while it waits resets nothing. The lease is dropped, and there are others later.
func TestResetWhoseContextEnds(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		atHand, _ := r.warm()
		release := r.gate.holdBack(rule.TakeUpTo)
		testkit.Must(r.leased.AllowN(ctx, "key", atHand))(t)
		synctest.Wait()
		before := r.remaining()
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if err := r.leased.Reset(short, "key"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the reset returned %v, want the error of its context", err)
		}
		release()
		synctest.Wait()
		if out := r.lease.Stats().Outstanding; out != 0 {
			t.Errorf("%d units are leased that may have been charged before the reset", out)
		}
		if got := r.remaining(); got > before {
			t.Errorf("the store has %d left, and had %d before: it was reset or units were returned", got, before)
		}
		if atHand, _ := r.warm(); atHand == 0 {
			t.Error("there are no more leases")
		}
	})
}

// A key that becomes busy while it is reset has no lease until the reset is done.
func TestResetOfAKeyThatBecomesBusy(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		release := r.gate.holdBack(rule.Reset)
		done := make(chan error, 1)
		go func() { done <- r.leased.Reset(ctx, "key") }()
		synctest.Wait()
		for range 50 {
			if d := testkit.Must(r.leased.Allow(ctx, "key"))(t); d.Flags&rule.Leased != 0 {
				t.Errorf("%+v; want no lease during the reset", d)
				break
			}
		}
		release()
		if err := <-done; err != nil {
			t.Error(err)
		}
		r.want(1000, "after the reset")
		if out := r.lease.Stats().Outstanding; out != 0 {
			t.Errorf("after the reset %d units are leased", out)
		}
		testkit.Pass(100 * time.Millisecond)
		if keys := r.lease.Stats().Keys; keys != 0 {
			t.Errorf("%d keys are held that are not requested", keys)
		}
	})
}

// A request over two limits spends from the first and finds the second empty. If the first is reset at that very
// moment, what was spent of it is not returned to the store.
func TestResetWhileASpendIsUndone(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		r.warm()
		own := slidegate.MustParseLimit(aThousand)
		empty := slidegate.MustParseLimit("10/10s segments=10 overlap=whole lease name=empty")
		both := r.leased.For(
			slidegate.Claim{Limit: own, Key: "key", Cost: 3},
			slidegate.Claim{Limit: empty, Key: "key", Cost: 5},
		)
		for range 10 { // it becomes busy, and is used up
			testkit.Must(r.leased.For(slidegate.Claim{Limit: empty, Key: "key"}).Allow(ctx))(t)
		}
		undone := false
		r.onUndo = func() {
			undone = true
			r.reset()
			testkit.Must(r.direct.AllowN(ctx, "key", 500))(t)
		}
		testkit.Must(both.Allow(ctx))(t)
		if !undone {
			t.Fatal("no spend was undone")
		}
		testkit.Pass(200 * time.Millisecond)
		r.want(500, "after 500 were taken since the reset")
	})
}

// A batch that contains a reset is decided in order.
func TestResetInABatch(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		r.warm()
		limit := adapter.Bound(r.leased)[0]
		charge := []store.Charge{{Limit: limit, Key: "key", Cost: 1000}}
		batch := []store.Request{
			{Op: rule.Take, Charges: charge, Answers: make([]rule.Answer, 1)},
			{Op: rule.Reset, Charges: charge, Answers: make([]rule.Answer, 1)},
			{Op: rule.Take, Charges: charge, Answers: make([]rule.Answer, 1)},
		}
		if err := r.lease.Apply(ctx, batch); err != nil {
			t.Fatal(err)
		}
		if batch[0].Answers[0].Allowed || !batch[2].Answers[0].Allowed {
			t.Errorf("before the reset %+v, after it %+v; want the second admitted only", batch[0].Answers[0], batch[2].Answers[0])
		}
	})
}
