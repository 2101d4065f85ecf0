package rule

import (
	"math"
	"testing"
	"time"
)

// A duration that a time.Duration cannot hold becomes the longest one, and never one of the wrong sign.
func TestMicrosAsDuration(t *testing.T) {
	const most = math.MaxInt64 / 1000
	for m, want := range map[Micros]time.Duration{
		0: 0, 1: time.Microsecond, -1: -time.Microsecond, 60e6: time.Minute, MaxWindow: 5 * 366 * 24 * time.Hour,
		most: most * time.Microsecond, most + 1: math.MaxInt64, Never: math.MaxInt64,
		-most: -most * time.Microsecond, -most - 1: math.MinInt64, math.MinInt64: math.MinInt64,
	} {
		if got := m.Duration(); got != want {
			t.Errorf("%d: got %d, want %d", m, got, want)
		}
	}
}
