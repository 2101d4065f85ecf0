package coalesce_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/coalesce"
	"github.com/slidegate/slidegate/storetest"
)

// patient keeps slow machines from making the suite's calls late.
var patient = coalesce.Options{InFlight: 1, MaxBatch: 7, Timeout: time.Minute}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) slidegate.Store {
		return newStore(t, newMemory(t, clock.Now), coalesce.Options{Timeout: time.Minute})
	})
}

// The same with all requests in shared calls.
func TestStoreShared(t *testing.T) {
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) slidegate.Store {
		return crowded{newStore(t, newMemory(t, clock.Now), patient)}
	})
}

// The same over a store that heeds its context and decides single charges in batches only.
func TestStoreWithoutOneTaker(t *testing.T) {
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) slidegate.Store {
		return newStore(t, struct{ slidegate.Store }{storetest.NewReference(clock)}, patient)
	})
}

// crowded makes everybody wait at first.
type crowded struct{ *coalesce.Store }

func (c crowded) Apply(ctx context.Context, batch []slidegate.Request) error {
	defer c.Crowd()()
	return c.Store.Apply(ctx, batch)
}

func (c crowded) TakeOne(ctx context.Context, limit *slidegate.BoundLimit, key string, cost int64) (
	allowed bool, flags slidegate.Flags, remaining int64, retryAfter, resetAfter, at slidegate.Micros, err error,
) {
	defer c.Crowd()()
	return c.Store.TakeOne(ctx, limit, key, cost)
}
