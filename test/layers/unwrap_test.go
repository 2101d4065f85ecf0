// Package layers_test tests what all layers have in common, including those of other modules.
package layers_test

import (
	"testing"

	"github.com/slidegate/slidegate/layer/coalesce"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/layer/refusals"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// As finds the store below all layers, and each of the layers.
func TestLayersUnwrap(t *testing.T) {
	memory := memstore.NewDefault()
	top := put(t, memory, func(s store.Store) (*coalesce.Store, error) { return coalesce.New(s, coalesce.Options{}) })
	top = put(t, top, func(s store.Store) (*refusals.Store, error) { return refusals.New(s, refusals.Options{}) })
	top = put(t, top, func(s store.Store) (*failure.Store, error) {
		return failure.New(s, failure.Options{Local: memstore.NewDefault()})
	})
	top = put(t, top, func(s store.Store) (*observe.Store, error) { return observe.New(s, observe.Options{}) })
	if found, ok := store.As[*memstore.Store](top); !ok || found != memory {
		t.Error("the store in memory was not found")
	}
	_, coalesces := store.As[*coalesce.Store](top)
	_, caches := store.As[*refusals.Store](top)
	_, fails := store.As[*failure.Store](top)
	_, observes := store.As[*observe.Store](top)
	if !coalesces || !caches || !fails || !observes {
		t.Errorf("found coalesce %v, refusals %v, failure %v, observe %v, want all four", coalesces, caches, fails, observes)
	}
}

func put[S store.Store](t *testing.T, below store.Store, layer func(store.Store) (S, error)) store.Store {
	t.Helper()
	above, err := layer(below)
	if err != nil {
		t.Fatal(err)
	}
	if wrapper, ok := any(above).(store.Wrapper); !ok || wrapper.Unwrap() != below {
		t.Errorf("%T does not unwrap to the store that it was given", above)
	}
	return above
}
