// Package layering knows the order of the layers over a store, so that each layer can refuse a wrong one.
package layering

import (
	"fmt"

	"github.com/slidegate/slidegate/store"
)

// Layer is a layer's place in the order of layers, from the store outwards.
type Layer uint8

// The layers, in their order from the store outwards. Package stack puts them over a store.
const (
	Coalesce Layer = iota + 1
	Refusals
	Failure
	Lease
	Observe
)

var layerNames = []string{"", "coalesce", "refusals", "failure", "lease", "observe"}

// String returns the name of the layer's package.
func (l Layer) String() string { return layerNames[l] }

// Layered is implemented by the layers of this module.
type Layered interface {
	// Layer returns the layer's place.
	Layer() Layer
}

// Over returns an error if l does not belong over inner, because inner has that layer already or has one that belongs over
// l. Only observation may be anywhere, and more than once. The New of each layer calls it.
func (l Layer) Over(inner store.Store) error {
	if l < Observe && l.In(inner) {
		return fmt.Errorf("%v: inner: has this layer already; use one %v for all limiters", l, l)
	}
	for above := l + 1; above < Observe; above++ {
		if above.In(inner) {
			return fmt.Errorf("%v: inner: has the layer %v, which belongs over %v; stack.New puts layers in order", l, above, l)
		}
	}
	return nil
}

// In reports whether s has the layer.
func (l Layer) In(s store.Store) bool {
	for s != nil {
		if at, ok := s.(Layered); ok && at.Layer() == l {
			return true
		}
		wrapper, ok := s.(store.Wrapper)
		if !ok {
			break
		}
		s = wrapper.Unwrap()
	}
	return false
}

// Leaser is implemented by the layer that leases units of limits with Lease set.
type Leaser interface {
	// Leases does nothing; it marks the implementation.
	Leases()
}
