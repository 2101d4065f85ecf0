package main

import (
	"os"
	"runtime/debug"
)

// heapRoom is how much a service may throw away before the collector looks for it. Go collects when the heap has doubled, and
// a service whose requests live for microseconds has next to nothing that stays: it would collect a hundred times a second,
// which takes a third of the processors' time.
const heapRoom = 32 << 20

// holdRoom returns memory that nobody writes to, so that there is none behind it; the collector counts it as something that
// stays for as long as it is held. It is nil for those who have told the collector otherwise, by GOGC or a small GOMEMLIMIT.
func holdRoom() []byte {
	if _, told := os.LookupEnv("GOGC"); told || debug.SetMemoryLimit(-1) < 8*heapRoom {
		return nil
	}
	return make([]byte, heapRoom)
}
