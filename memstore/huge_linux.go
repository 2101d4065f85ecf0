package memstore

import (
	"sync"
	"syscall"
	"unsafe"
)

// A decision about one of a million keys reads a line that is far from the one before, and the processor has to find out where
// its page is, too: that it remembers for a few thousand pages. A huge page stands for 512 small ones. Linux makes huge pages by
// itself only where it is set to, but can be asked to make one of the pages that are there.

const (
	hugeBytes = 2 << 20
	// enough is how many bytes of a huge page must have been allocated here: others may have the rest.
	enough = hugeBytes * 3 / 4
	// collapse is MADV_COLLAPSE, since Linux 6.1. An older kernel says that it does not know it, and nothing is lost.
	collapse = 25
)

// hugePages counts what was allocated in each huge page that is not one yet, by its address.
var hugePages = struct {
	mu    sync.Mutex
	bytes map[uintptr]int
}{bytes: map[uintptr]int{}}

// placed notes where memory lies that keys are read from, and asks for a huge page where that is most of it.
func placed(p unsafe.Pointer, bytes int) {
	at := uintptr(p) &^ (hugeBytes - 1)
	hugePages.mu.Lock()
	n := hugePages.bytes[at] + bytes
	if n < enough {
		hugePages.bytes[at] = n
		hugePages.mu.Unlock()
		return
	}
	delete(hugePages.bytes, at)
	hugePages.mu.Unlock()
	go makeHuge(at) // it takes a millisecond or two, and the caller may hold locks
}

var oneAtATime sync.Mutex

func makeHuge(at uintptr) {
	oneAtATime.Lock()
	defer oneAtATime.Unlock()
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, at, hugeBytes, collapse)
}
