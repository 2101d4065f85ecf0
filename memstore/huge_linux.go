package memstore

import (
	"sync"
	"syscall"
	"unsafe"
)

// A decision about one of a million keys reads a line that is far from the previous one, and the processor must also
// translate its address, which it caches for a few thousand pages. A huge page stands for 512 small ones. Linux creates
// huge pages automatically only if configured to, but can make one from existing pages on request.

const (
	hugeBytes = 2 << 20
	// minAllocated is how many bytes of a huge page must have been allocated here; the rest may belong to others.
	minAllocated = hugeBytes * 3 / 4
	// collapse is MADV_COLLAPSE, available since Linux 6.1. Older kernels return an error, which does no harm.
	collapse = 25
)

// hugePages counts the bytes allocated in each potential huge page, by its address.
var hugePages = struct {
	mu    sync.Mutex
	bytes map[uintptr]int
}{bytes: map[uintptr]int{}}

// recordAllocation records where memory for keys was allocated, and requests a huge page once most of one has been
// allocated.
func recordAllocation(p unsafe.Pointer, bytes int) {
	at := uintptr(p) &^ (hugeBytes - 1)
	hugePages.mu.Lock()
	n := hugePages.bytes[at] + bytes
	if n < minAllocated {
		hugePages.bytes[at] = n
		hugePages.mu.Unlock()
		return
	}
	delete(hugePages.bytes, at)
	hugePages.mu.Unlock()
	go makeHuge(at) // this takes a millisecond or two, and the caller may hold locks
}

var collapsing sync.Mutex

func makeHuge(at uintptr) {
	collapsing.Lock()
	defer collapsing.Unlock()
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, at, hugeBytes, collapse)
}
