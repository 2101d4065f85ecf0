//go:build !race

package memstore

import (
	"sync/atomic"
	"unsafe"
)

// Who has made a slot busy writes its words one by one and then the control word. Those who read meanwhile find out by that word
// alone, so the writes only have to become visible in their order, which is how this processor makes all writes visible. An atomic
// store promises more, and takes as long as a compare-and-swap.

// put writes a word of a slot that is busy, or of a line that belongs to one.
func put(at *atomic.Uint64, v uint64) { *(*uint64)(unsafe.Pointer(at)) = v }

// publish writes the control word of a slot that was busy, after all else.
func publish(at *atomic.Uint64, v uint64) { *(*uint64)(unsafe.Pointer(at)) = v }
