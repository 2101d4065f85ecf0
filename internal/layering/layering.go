// Package layering finds the layers over a store.
package layering

import "github.com/slidegate/slidegate/store"

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

// Layered is implemented by the layers of this module.
type Layered interface {
	// Layer returns the layer's place.
	Layer() Layer
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
