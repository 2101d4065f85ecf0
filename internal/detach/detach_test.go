package detach_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/store"
)

type mark struct{}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for trips := range 2 {
			parent, end := context.WithTimeout(context.WithValue(t.Context(), mark{}, "kept"), time.Second)
			end()
			ctx, cancel := detach.Context(parent, store.Traits{RoundTrips: trips})
			if ctx.Err() != nil || ctx.Value(mark{}) != "kept" {
				t.Errorf("%d round trips: %v, with the value %v", trips, ctx.Err(), ctx.Value(mark{}))
			}
			testkit.Pass(detach.MaxTime)
			if ended := errors.Is(ctx.Err(), context.DeadlineExceeded); ended != (trips > 0) {
				t.Errorf("%d round trips: after MaxTime, ended is %v", trips, ended)
			}
			cancel()
		}
	})
}
