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
	"github.com/slidegate/slidegate/store"
)

// slow is a store that takes a while to answer what comes in batches, as calls for blocks do.
type slow struct{ *memstore.Store }

func (s slow) Apply(ctx context.Context, batch []store.Request) error {
	err := s.Store.Apply(ctx, batch)
	<-time.After(10 * time.Millisecond)
	return err
}

// TestCloseWaitsForWhatIsUnderWay closes while a block is on its way. It has to be back in the store when Close returns.
func TestCloseWaitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		remote := testkit.Must(memstore.New(memstore.Options{}))(t)
		s := testkit.Must(lease.New(slow{remote}, lease.Options{}))(t)
		limit := slidegate.MustParseLimit("1000/1m segments=60 overlap=whole lease")
		limiter := testkit.Must(slidegate.New(s, limit))(t)
		for range 7 { // the next one makes the key a busy one, and waits for a block
			testkit.Must(limiter.Allow(ctx, "k"))(t)
		}
		go func() { _, _ = limiter.Allow(ctx, "k") }()
		testkit.Pass(5 * time.Millisecond)
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if stats := s.Stats(); stats.Taken == 0 || stats.Out != 0 {
			t.Errorf("after Close: %+v; want a block that was taken and given back", stats)
		}
		testkit.Pass(time.Second)
		decision := testkit.Must(testkit.Must(slidegate.New(remote, limit))(t).Peek(ctx, "k"))(t)
		if used := limit.Quota - decision.Remaining; used != 8 {
			t.Errorf("the store counts %d units, want the 8 that were admitted", used)
		}
	})
}
