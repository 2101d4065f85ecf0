package lease_test

import (
	"context"
	"sync/atomic"
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

// leavingStore is a store that can become unreachable, behind a failure mode that then decides.
type leavingStore struct {
	distant
	away atomic.Bool
}

func (l *leavingStore) Apply(ctx context.Context, batch []store.Request) error {
	if !l.away.Load() {
		return l.Store.Apply(ctx, batch)
	}
	for i := range batch {
		batch[i].Answers[0], batch[i].Err = rule.Answer{Flags: rule.FallbackClosed, At: -1}, nil
	}
	return nil
}

// TestLeaseIsWastedWhileTheStoreIsAway holds a lease while the store becomes unreachable. A failure mode answers when the lease
// is returned, and the units stay charged: they must be counted as wasted, and not disappear from the counts.
func TestLeaseIsWastedWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		remote := &leavingStore{distant: newDistant(t, memstore.Options{})}
		s := lease.New(remote, lease.Options{})
		limiter := testkit.Must(slidegate.New(s, slidegate.MustParseLimit("1000/1m segments=60 overlap=whole lease")))(t)
		for range 20 {
			testkit.Must(limiter.Allow(ctx, "k"))(t)
		}
		synctest.Wait()
		out := s.Stats().Outstanding
		remote.away.Store(true)
		testkit.Pass(2 * time.Second) // it is returned, and the keeper ends
		if stats := s.Stats(); out == 0 || stats.Wasted != out || stats.Taken != stats.Spent+stats.Returned+stats.Wasted {
			t.Errorf("%d units were leased; then %+v", out, stats)
		}
	})
}
