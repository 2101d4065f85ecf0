package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/layer/lease"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// slow is a store that takes its time over blocks.
type slow struct{ store.Store }

func (s slow) Apply(ctx context.Context, batch []store.Request) error {
	err := s.Store.Apply(ctx, batch)
	if batch[0].Op == rule.TakeUpTo {
		<-time.After(10 * time.Millisecond)
	}
	return err
}

// A block that was under way when the store was closed is given back before Close returns.
func TestCloseDuringTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := lease.New(slow{inner}, lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := slidegate.Bind("close", slidegate.Limit{Quota: 1000, Window: time.Minute, Segments: 60, Overlap: slidegate.OverlapWhole, Lease: true})
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
				if err != nil { // it did not wait for the block
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
		if stats := s.Stats(); stats.Out != 0 || stats.Taken == 0 || stats.Returned != stats.Taken {
			t.Errorf("after Close: %+v", stats)
		}
		answers := make([]rule.Answer, 1)
		peek := []store.Request{{Op: rule.Peek, Charges: []store.Charge{{Limit: l, Key: "k"}}, Answers: answers}}
		if err := inner.Apply(ctx, peek); err != nil || answers[0].Remaining != 1000-admitted {
			t.Errorf("%d remain after %d were admitted, error %v", answers[0].Remaining, admitted, err)
		}
		testkit.Pass(time.Second) // the keeper ends
	})
}
