package lease_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/layer/lease"
	"github.com/slidegate/slidegate/memstore"
)

// TestStatsNeverGoBack looks at the figures while the keeper forgets keys that nobody asks for any more. What was spent goes
// from the key to the sum then, and must be seen in one of the two: metrics take a counter that falls for a restart.
func TestStatsNeverGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		remote := testkit.Must(memstore.New(memstore.Options{}))(t)
		s := testkit.Must(lease.New(remote, lease.Options{MaxKeys: 2000}))(t)
		limiter := testkit.Must(slidegate.New(s, slidegate.MustParseLimit("1000/1m segments=60 overlap=whole lease")))(t)
		for k := range 1000 {
			for range 16 {
				testkit.Must(limiter.Allow(ctx, strconv.Itoa(k)))(t)
			}
		}
		before := s.Stats()
		if before.Keys < 900 || before.Spent == 0 { // a place for a key is not always found
			t.Fatalf("%+v; want nearly a thousand keys that were spent from", before)
		}
		testkit.Pass(time.Second) // soon they are forgotten
		for s.Stats().Keys > 0 {
			for range 500 {
				if now := s.Stats(); now.Spent < before.Spent || now.Decisions < before.Decisions {
					t.Fatalf("%d units in %d decisions were spent, before it was %d in %d", now.Spent, now.Decisions, before.Spent, before.Decisions)
				}
			}
			<-time.After(25 * time.Millisecond)
		}
		if now := s.Stats(); now.Spent != before.Spent {
			t.Errorf("%d units were spent, want %d", now.Spent, before.Spent)
		}
	})
}
