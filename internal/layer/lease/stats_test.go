package lease_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// TestStatsNeverDecrease reads the counts while the keeper forgets keys that are no longer requested. What was spent is
// then moved from the key to the sum, and must be counted in one of the two: metrics take a counter that falls for a
// restart.
func TestStatsNeverDecrease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		remote := newDistant(t, memstore.Options{})
		s := lease.New(remote, lease.Options{MaxKeys: 2000})
		limiter := testkit.Must(slidegate.New(s, slidegate.MustParseLimit("1000/1m segments=60 overlap=whole lease")))(t)
		for k := range 1000 {
			for range 16 {
				testkit.Must(limiter.Allow(ctx, strconv.Itoa(k)))(t)
			}
		}
		before := s.Stats()
		if before.Keys < 900 || before.Spent == 0 { // there is not always space for a key
			t.Fatalf("%+v; want nearly a thousand keys with spends", before)
		}
		testkit.Pass(time.Second) // soon they are forgotten
		looks := 500
		if testkit.Race {
			looks = 20 // with the race detector they are slow, and this is not about data races
		}
		for s.Stats().Keys > 0 {
			for range looks {
				if now := s.Stats(); now.Spent < before.Spent || now.Decisions < before.Decisions {
					t.Fatalf("got %d units spent in %d decisions, and before %d in %d", now.Spent, now.Decisions, before.Spent, before.Decisions)
				}
			}
			<-time.After(25 * time.Millisecond)
		}
		if now := s.Stats(); now.Spent != before.Spent {
			t.Errorf("got %d units spent, want %d", now.Spent, before.Spent)
		}
	})
}

// open answers as failure mode open does while the store is away.
type open struct{ store.Store }

func (open) Apply(_ context.Context, batch []store.Request) error {
	for i := range batch {
		for k := range batch[i].Charges {
			a := rule.Answer{Allowed: true, Flags: rule.FallbackOpen, At: -1}
			if batch[i].Op != rule.GiveBack {
				a.Granted = batch[i].Charges[k].Cost
			}
			batch[i].Answers[k], batch[i].Err = a, nil
		}
	}
	return nil
}

// TestFallbackIsNotWasted checks that what a failure mode grants is not a lease, so none of it is counted as taken or
// wasted.
func TestFallbackIsNotWasted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := lease.New(open{newDistant(t, memstore.Options{})}, lease.Options{})
		limiter := testkit.Must(slidegate.New(s, slidegate.MustParseLimit("1000/1m segments=60 overlap=whole lease")))(t)
		for range 100 {
			if d := testkit.Must(limiter.Allow(ctx, "k"))(t); !d.Allowed || d.Flags&rule.FallbackOpen == 0 || d.Flags&rule.Leased != 0 {
				t.Fatalf("got %+v, want the failure mode's decision", d)
			}
			<-time.After(time.Millisecond)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if got := s.Stats(); got.Calls == 0 || got.Taken != 0 || got.Wasted != 0 || got.Returned != 0 {
			t.Errorf("got %+v, want calls and no units", got)
		}
	})
}
