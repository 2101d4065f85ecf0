package coalesce_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// patient has a timeout long enough for the suite on slow machines.
var patient = coalesce.Options{InFlight: 1, MaxBatch: 7, Timeout: time.Minute}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return newStore(t, newMemory(t, clock.Now), coalesce.Options{Timeout: time.Minute})
	})
}

// The suite with all requests in shared calls.
func TestStoreShared(t *testing.T) {
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return crowdedStore{newStore(t, newMemory(t, clock.Now), patient)}
	})
}

// The suite over a store that obeys its context and decides single charges only in batches.
func TestStoreWithoutSingleTaker(t *testing.T) {
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return newStore(t, struct{ store.Store }{storetest.NewReference(clock)}, patient)
	})
}

// crowdedStore makes every request wait at first.
type crowdedStore struct{ *coalesce.Store }

func (c crowdedStore) Apply(ctx context.Context, batch []store.Request) error {
	defer c.Crowd()()
	return c.Store.Apply(ctx, batch)
}

func (c crowdedStore) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	defer c.Crowd()()
	return c.Store.TakeSingle(ctx, limit, key, cost)
}
