//go:build !race

package journal

import (
	"sync/atomic"
	"unsafe"
)

// The words of a record must become visible in order, also to the file that outlives the process. This processor guarantees that for all
// stores, and an atomic store takes as long as a compare-and-swap.

// put writes a word of a record that is being written.
func put(at *atomic.Uint64, v uint64) { *(*uint64)(unsafe.Pointer(at)) = v }

// publish writes the first word of a record, after all others.
func publish(at *atomic.Uint64, v uint64) { *(*uint64)(unsafe.Pointer(at)) = v }
