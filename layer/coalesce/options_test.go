package coalesce_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/coalesce"
	"github.com/slidegate/slidegate/store"
)

func TestWrongOptions(t *testing.T) {
	memory := newMemory(t, nil)
	for _, c := range []struct {
		inner store.Store
		opts  coalesce.Options
		want  string
	}{
		{nil, coalesce.Options{}, "coalesce: inner: must not be nil"},
		{memory, coalesce.Options{InFlight: -1}, "coalesce: InFlight: must be 1 to 1024, or 0 for the default, not -1"},
		{memory, coalesce.Options{InFlight: 1025}, "coalesce: InFlight: must be 1 to 1024, or 0 for the default, not 1025"},
		{memory, coalesce.Options{MaxBatch: -2}, "coalesce: MaxBatch: must be at least 1, or 0 for the default, not -2"},
		{memory, coalesce.Options{MaxQueue: -3}, "coalesce: MaxQueue: must be at least 1, or 0 for the default, not -3"},
		{memory, coalesce.Options{Timeout: -time.Second}, "coalesce: Timeout: must be positive, or 0 for the default, not -1s"},
	} {
		store, err := coalesce.New(c.inner, c.opts)
		if store != nil || err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: got error %v, want %q", c.opts, err, c.want)
		}
	}
	for _, opts := range []coalesce.Options{{}, {InFlight: 1024, MaxBatch: 1, MaxQueue: 1, Timeout: 1}} {
		newStore(t, memory, opts)
	}
}

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
