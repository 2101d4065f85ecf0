package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// nextCollection is how large the heap may get.
func nextCollection() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.NextGC
}

func TestTheCollectorWaits(t *testing.T) {
	if told, ok := os.LookupEnv("GOGC"); ok {
		os.Unsetenv("GOGC")
		defer os.Setenv("GOGC", told)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	before := nextCollection()
	room := holdRoom()
	if after := nextCollection(); after < before+2*heapRoom-heapRoom/2 {
		t.Errorf("the collector waits for %d bytes, and for %d before", after, before)
	}
	runtime.KeepAlive(room)
}

func TestTheCollectorIsTold(t *testing.T) {
	t.Setenv("GOGC", "100")
	if room := holdRoom(); room != nil {
		t.Errorf("GOGC is set, and %d bytes are held", len(room))
	}
	os.Unsetenv("GOGC") // t.Setenv puts it back
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(100 << 20))
	if room := holdRoom(); room != nil {
		t.Errorf("GOMEMLIMIT is small, and %d bytes are held", len(room))
	}
}
