// Package layers_test tests what all layers have in common, including those of other modules.
package layers_test

import (
	"testing"

	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
)

// As finds the store below all layers, and each of the layers, and so does package layering. Other stores in between, a view or
// a store that wraps another, do not hide a layer.
func TestLayersUnwrap(t *testing.T) {
	memory := memstore.NewDefault()
	top := put(t, &remoteStore{Store: memory}, func(s store.Store) store.Store { return coalesce.New(s, coalesce.Options{}) })
	top = put(t, top, func(s store.Store) store.Store { return wrapper{s} })
	top = put(t, top, func(s store.Store) store.Store { return refusals.New(s, refusals.Options{}) })
	top = put(t, top, func(s store.Store) store.Store { return store.In(s, store.FailClosed) })
	top = put(t, top, func(s store.Store) store.Store { return failure.New(s, failure.Options{Local: memstore.NewDefault()}) })
	top = put(t, top, func(s store.Store) store.Store { return lease.New(s, lease.Options{}) })
	top = put(t, top, func(s store.Store) store.Store { return kit.Must(observe.New(s, observe.Options{}))(t) })
	if found, ok := store.As[*remoteStore](top); !ok || found.Store != memory {
		t.Error("the store below was not found")
	}
	_, coalesces := store.As[*coalesce.Store](top)
	_, caches := store.As[*refusals.Store](top)
	_, fails := store.As[*failure.Store](top)
	_, leases := store.As[*lease.Store](top)
	_, observes := store.As[*observe.Store](top)
	if !coalesces || !caches || !fails || !leases || !observes {
		t.Errorf("found coalesce %v, refusals %v, failure %v, lease %v, observe %v, want all", coalesces, caches, fails, leases, observes)
	}
	for layer := layering.Coalesce; layer <= layering.Observe; layer++ {
		if !layer.In(top) || layer.In(memory) {
			t.Errorf("layer %d: got %v with it and %v without, want true and false", layer, layer.In(top), layer.In(memory))
		}
	}
}

func put(t *testing.T, below store.Store, layer func(store.Store) store.Store) store.Store {
	t.Helper()
	above := layer(below)
	if unwraps, ok := above.(store.Wrapper); !ok || unwraps.Unwrap() != below {
		t.Errorf("%T does not unwrap to the store that it was given", above)
	}
	return above
}

// wrapper is a store of a program's own over another.
type wrapper struct{ store.Store }

func (w wrapper) Unwrap() store.Store { return w.Store }
