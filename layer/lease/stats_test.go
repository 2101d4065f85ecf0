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
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
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
		looks := 500
		if testkit.Race {
			looks = 20 // they are slow there, and what is looked for is no data race
		}
		for s.Stats().Keys > 0 {
			for range looks {
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

// TestFallbackIsNotWasted: what a failure mode grants in the store's place is no block, so nothing of it is taken or wasted.
func TestFallbackIsNotWasted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := testkit.Must(lease.New(open{testkit.Must(memstore.New(memstore.Options{}))(t)}, lease.Options{}))(t)
		limiter := testkit.Must(slidegate.New(s, slidegate.MustParseLimit("1000/1m segments=60 overlap=whole lease")))(t)
		for range 100 {
			if d := testkit.Must(limiter.Allow(ctx, "k"))(t); !d.Allowed || !d.Flags.FallbackOpen() || d.Flags.Leased() {
				t.Fatalf("got %+v, want what the failure mode says", d)
			}
			<-time.After(time.Millisecond)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if got := s.Stats(); got.Calls == 0 || got.Taken != 0 || got.Wasted != 0 || got.Returned != 0 {
			t.Errorf("got %+v, want calls and no units", got)
		}
		testkit.Pass(2 * time.Second) // the keeper ends
	})
}
