package main

import (
	"os"
	"runtime/debug"
)

// ballastSize is how much garbage a service may produce before a collection starts. Go collects when the heap has doubled, and a
// service whose requests live for microseconds has almost no live heap: it would collect a hundred times a second, which takes a
// third of the processor time.
const ballastSize = 32 << 20

// newBallast returns memory that is never written to, so no physical memory backs it; the collector counts it as live for as long as
// it is referenced. It returns nil if GOGC or a small GOMEMLIMIT configures the collector.
func newBallast() []byte {
	if _, set := os.LookupEnv("GOGC"); set || debug.SetMemoryLimit(-1) < 8*ballastSize {
		return nil
	}
	return make([]byte, ballastSize)
}
