package coalesce_test

import (
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/store"
)

// The traits of the inner store and the limits that it accepts are unchanged.
func TestTraitsAndCheckOfInnerStore(t *testing.T) {
	st := newStore(t, pickyStore{newMemory(t, nil)}, coalesce.Options{})
	if got := st.Traits(); got != (store.Traits{Name: "picky", ServerClock: true, MaxCharges: 3, RoundTrips: 2}) {
		t.Errorf("got traits %+v", got)
	}
	if err := st.Check(bind(t, slidegate.PerHour(1))); err != store.ErrUnsupported {
		t.Errorf("Check returned %v", err)
	}
	if _, err := slidegate.New(st, slidegate.PerHour(1)); err == nil {
		t.Error("got a limiter with a limit that the store does not support")
	}
}

type pickyStore struct{ store.Store }

func (pickyStore) Traits() store.Traits {
	return store.Traits{Name: "picky", ServerClock: true, MaxCharges: 3, RoundTrips: 2}
}

func (pickyStore) Check(*store.Limit) error { return store.ErrUnsupported }
