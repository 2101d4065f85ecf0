package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/store"
)

type mark struct{}

func TestDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for trips := range 2 {
			parent, end := context.WithTimeout(context.WithValue(t.Context(), mark{}, "kept"), time.Second)
			end()
			ctx, cancel := store.Detach(parent, store.Traits{RoundTrips: trips})
			if ctx.Err() != nil || ctx.Value(mark{}) != "kept" {
				t.Errorf("%d round trips: %v, with the value %v", trips, ctx.Err(), ctx.Value(mark{}))
			}
			time.Sleep(store.FinishTime)
			synctest.Wait()
			if ended := errors.Is(ctx.Err(), context.DeadlineExceeded); ended != (trips > 0) {
				t.Errorf("%d round trips: after FinishTime, ended is %v", trips, ended)
			}
			cancel()
		}
	})
}
