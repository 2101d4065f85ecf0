package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
)

// TestStatsDoNotFallWithARefusal reads the counts while a request has spent from one of its limits, before the other
// limit refuses it.
func TestStatsDoNotFallWithARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		remote := newDistant(t, memstore.Options{})
		var s *lease.Store
		var between lease.Stats
		undone := 0
		s = lease.New(remote, lease.Options{Spent: func(spend lease.Spend) {
			if spend.Units > 0 {
				between = s.Stats()
			} else {
				undone++
			}
		}})
		limiter := testkit.Must(slidegate.New(s, slidegate.MustParseLimit("1000/1m segments=60 overlap=whole lease"),
			slidegate.MustParseLimit("100/1h segments=60 overlap=whole lease")))(t)
		for range 200 {
			testkit.Must(limiter.Allow(ctx, "k"))(t)
			if now := s.Stats(); now.Spent < between.Spent || now.Decisions < between.Decisions {
				t.Fatalf("%+v, and before %+v", now, between)
			}
		}
		if undone == 0 {
			t.Error("no request undid a spend")
		}
		testkit.Pass(2 * time.Second) // the keeper ends
	})
}
