package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// slow is a store that is slow to grant leases.
type slow struct{ store.Store }

func (s slow) Apply(ctx context.Context, batch []store.Request) error {
	err := s.Store.Apply(ctx, batch)
	if batch[0].Op == rule.TakeUpTo {
		<-time.After(10 * time.Millisecond)
	}
	return err
}

// A lease that was under way when the store was closed is returned before Close returns.
func TestCloseDuringCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newDistant(t, memstore.Options{})
		s := lease.New(slow{inner}, lease.Options{})
		l, err := adapter.Bind("close", slidegate.Limit{Quota: 1000, Window: time.Minute, Segments: 60, Overlap: slidegate.OverlapWhole, Lease: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		waiting, leave := context.WithCancel(ctx)
		admitted := int64(0)
		left := make(chan struct{})
		go func() {
			defer close(left)
			for {
				allowed, _, _, _, _, _, err := s.TakeSingle(waiting, l, "k", 1)
				if err != nil { // it did not wait for the lease
					return
				}
				if allowed {
					admitted++
				}
			}
		}()
		testkit.Pass(5 * time.Millisecond)
		leave()
		<-left
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if stats := s.Stats(); stats.Outstanding != 0 || stats.Taken == 0 || stats.Returned != stats.Taken {
			t.Errorf("after Close: got %+v, want all taken units returned", stats)
		}
		answers := make([]rule.Answer, 1)
		peek := []store.Request{{Op: rule.Peek, Charges: []store.Charge{{Limit: l, Key: "k"}}, Answers: answers}}
		if err := inner.Apply(ctx, peek); err != nil || answers[0].Remaining != 1000-admitted {
			t.Errorf("%d remain after %d were admitted, error %v", answers[0].Remaining, admitted, err)
		}
	})
}

// Close returns when the goroutines of the layer have ended: a bubble that ends then has none left.
func TestNoGoroutineAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lease.New(newDistant(t, memstore.Options{}), lease.Options{})
		limiter := testkit.Must(slidegate.New(s, slidegate.MustParseLimit(aThousand)))(t)
		for range 20 {
			testkit.Must(limiter.Allow(ctx, "key"))(t)
		}
		if s.Stats().Keys != 1 {
			t.Error("a busy key has no lease")
		}
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := s.Close(ctx); err != nil {
			t.Errorf("closed a second time: %v", err)
		}
		if keys := s.Stats().Keys; keys != 0 {
			t.Errorf("%d keys are still held", keys)
		}
	})
}

func TestCloseGivesBack(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		_, admitted := r.warm()
		if err := r.lease.Close(ctx); err != nil {
			t.Fatal(err)
		}
		r.want(1000-admitted, "after Close")
		for range 50 { // from now on everything goes straight to the store
			if d := testkit.Must(r.leased.Allow(ctx, "key"))(t); !d.Allowed || d.Flags&rule.Leased != 0 {
				t.Fatalf("%+v after Close; want it from the store", d)
			}
		}
		r.want(1000-admitted-50, "after Close, and 50 more,")
	})
}

func TestCloseWhoseContextEnds(t *testing.T) {
	withLease(t, aThousand, func(r *rig) {
		r.warm()
		release := r.gate.holdBack(rule.GiveBack)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if err := r.lease.Close(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close returned %v, want the error of its context", err)
		}
		release()
	})
}
