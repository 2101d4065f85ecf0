package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// nextCollection returns the heap size at which the next collection starts.
func nextCollection() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.NextGC
}

func TestBallastDelaysCollection(t *testing.T) {
	if value, ok := os.LookupEnv("GOGC"); ok {
		os.Unsetenv("GOGC")
		defer os.Setenv("GOGC", value)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	before := nextCollection()
	ballast := newBallast()
	if after := nextCollection(); after < before+2*ballastSize-ballastSize/2 {
		t.Errorf("got the next collection at %d bytes, before at %d, want about twice the ballast more", after, before)
	}
	runtime.KeepAlive(ballast)
}

func TestNoBallastIfCollectorIsConfigured(t *testing.T) {
	t.Setenv("GOGC", "100")
	if ballast := newBallast(); ballast != nil {
		t.Errorf("GOGC is set: got %d bytes, want nil", len(ballast))
	}
	os.Unsetenv("GOGC") // t.Setenv restores it
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(100 << 20))
	if ballast := newBallast(); ballast != nil {
		t.Errorf("GOMEMLIMIT is small: got %d bytes, want nil", len(ballast))
	}
}
