package layers_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/layer/coalesce"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/layer/lease"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/layer/refusals"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// layerOf has the constructor of each layer.
var layerOf = map[layering.Layer]func(store.Store) (store.Store, error){
	layering.Coalesce: func(s store.Store) (store.Store, error) { return coalesce.New(s, coalesce.Options{}) },
	layering.Refusals: func(s store.Store) (store.Store, error) { return refusals.New(s, refusals.Options{}) },
	layering.Failure: func(s store.Store) (store.Store, error) {
		return failure.New(s, failure.Options{Local: memstore.NewDefault()})
	},
	layering.Lease:   func(s store.Store) (store.Store, error) { return lease.New(s, lease.Options{}) },
	layering.Observe: func(s store.Store) (store.Store, error) { return observe.New(s, observe.Options{}) },
}

// Every layer knows its place, and can be put over each of the others if and only if that is below it. Other stores in
// between, a view or a store that wraps another, do not hide a layer.
func TestOrderOfLayers(t *testing.T) {
	for below := layering.Coalesce; below <= layering.Observe; below++ {
		for above := layering.Coalesce; above <= layering.Observe; above++ {
			inner, err := layerOf[below](&remoteStore{Store: memstore.NewDefault()})
			if err != nil {
				t.Fatal(err)
			}
			if at := inner.(layering.Layered).Layer(); at != below {
				t.Fatalf("the layer %v says that it is %v", below, at)
			}
			for name, inner := range map[string]store.Store{
				"directly": inner, "a view": store.In(inner, store.FailClosed), "observed": observed(t, inner), "wrapped": wrapper{inner},
			} {
				_, err := layerOf[above](inner)
				if fits := below < above || below == layering.Observe || above == layering.Observe; fits != (err == nil) {
					t.Errorf("%v over %v (%s): got error %v, want one %v", above, below, name, err, !fits)
				}
				if err != nil && (!strings.HasPrefix(err.Error(), above.String()+": inner: ") || !strings.Contains(err.Error(), "; ")) {
					t.Errorf("%v over %v: the error %q names no fix", above, below, err)
				}
			}
		}
	}
}

// All layers in their order, with observation in between, are accepted.
func TestOrderFromTheStoreOutwards(t *testing.T) {
	var top store.Store = &remoteStore{Store: memstore.NewDefault()}
	for layer := layering.Coalesce; layer <= layering.Observe; layer++ {
		above, err := layerOf[layer](top)
		if err != nil {
			t.Fatal(err)
		}
		top = observed(t, above)
	}
	for layer := layering.Coalesce; layer <= layering.Observe; layer++ {
		if !layer.In(top) {
			t.Errorf("the layer %v is not found", layer)
		}
		if layer.In(memstore.NewDefault()) {
			t.Errorf("the layer %v is found in a store without layers", layer)
		}
	}
}

func observed(t *testing.T, inner store.Store) store.Store {
	t.Helper()
	above, err := layerOf[layering.Observe](inner)
	if err != nil {
		t.Fatal(err)
	}
	return above
}

// wrapper is a store of a program's own over another.
type wrapper struct{ store.Store }

func (w wrapper) Unwrap() store.Store { return w.Store }
