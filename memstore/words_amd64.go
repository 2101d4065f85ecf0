//go:build !race

package memstore

import (
	"sync/atomic"
	"unsafe"
)

// A writer that has made a slot busy writes its words one by one and then the control word. Readers rely only on that word
// to detect changes, so the writes only have to become visible in order, which this processor guarantees for all writes. An
// atomic store guarantees more, and takes as long as a compare-and-swap.

// put writes a word of a busy slot, or of a line that belongs to one.
func put(at *atomic.Uint64, v uint64) { *(*uint64)(unsafe.Pointer(at)) = v }

// publish writes the control word of a busy slot, after all other words.
func publish(at *atomic.Uint64, v uint64) { *(*uint64)(unsafe.Pointer(at)) = v }
