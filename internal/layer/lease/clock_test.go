package lease

import (
	"testing"
	"time"
)

// TestClock plays events on the clocks of a machine: how far the monotonic clock has come, how far the wall clock has
// gained on it, and how long the machine has been suspended. With look the keeper checks, otherwise a spend reads the
// clock.
func TestClock(t *testing.T) {
	type reading struct {
		monotonic, gain, slept time.Duration
		look                   bool
		want                   time.Duration
	}
	for name, play := range map[string][]reading{
		"nothing happens": {
			{monotonic: 1 * time.Second, want: 1 * time.Second},
			{monotonic: 2 * time.Second, gain: time.Millisecond, slept: time.Millisecond, look: true, want: 2 * time.Second},
		},
		"suspended for 10 s": {
			{monotonic: 1 * time.Second, want: 1 * time.Second},
			{monotonic: 1 * time.Second, gain: 10 * time.Second, slept: 10 * time.Second, want: 11 * time.Second},
			{monotonic: 2 * time.Second, gain: 10 * time.Second, slept: 10 * time.Second, look: true, want: 12 * time.Second}, // not twice
			{monotonic: 3 * time.Second, gain: 15 * time.Second, slept: 15 * time.Second, want: 18 * time.Second},             // and again
		},
		"suspended, and the keeper sees it first": {
			{monotonic: 1 * time.Second, gain: 10 * time.Second, slept: 10 * time.Second, look: true, want: 11 * time.Second},
			{monotonic: 1 * time.Second, gain: 10 * time.Second, slept: 10 * time.Second, want: 11 * time.Second},
		},
		"the wall clock is set ahead": {
			{monotonic: 1 * time.Second, gain: time.Hour, want: time.Hour + 1*time.Second},
			{monotonic: 2 * time.Second, gain: time.Hour, look: true, want: time.Hour + 2*time.Second},
		},
		"the wall clock is set back": {
			{monotonic: 1 * time.Second, gain: -time.Hour, want: 1 * time.Second},
			{monotonic: 2 * time.Second, gain: -time.Hour, look: true, want: 2 * time.Second},
			{monotonic: 3 * time.Second, gain: -time.Hour + 10*time.Second, slept: 10 * time.Second, want: 13 * time.Second}, // suspended
		},
		"set ahead, set back, and then suspended": {
			{monotonic: 1 * time.Second, gain: time.Hour, want: time.Hour + 1*time.Second},
			{monotonic: 2 * time.Second, look: true, want: time.Hour + 2*time.Second},
			{monotonic: 3 * time.Second, gain: 10 * time.Second, slept: 10 * time.Second, want: time.Hour + 13*time.Second},
		},
		"set back while suspended": {
			{monotonic: 1 * time.Second, slept: 10 * time.Second, want: 1 * time.Second},
			{monotonic: 1 * time.Second, slept: 10 * time.Second, look: true, want: 11 * time.Second},
			{monotonic: 2 * time.Second, slept: 10 * time.Second, look: true, want: 12 * time.Second},
			{monotonic: 3 * time.Second, gain: 5 * time.Second, slept: 15 * time.Second, want: 18 * time.Second},
		},
		"set ahead, and then set back while suspended": {
			{monotonic: 1 * time.Second, gain: time.Hour, look: true, want: time.Hour + 1*time.Second},
			{monotonic: 2 * time.Second, slept: 10 * time.Second, look: true, want: time.Hour + 12*time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c clock
			for k, m := range play {
				if m.look {
					c.recordSuspension(int64(m.gain), int64(m.slept))
				}
				if got := time.Duration(c.timeAt(int64(m.monotonic), int64(m.gain))); got != m.want {
					t.Errorf("step %d: the clock shows %v, want %v", k+1, got, m.want)
				}
			}
		})
	}
}

// TestClockGoesOn reads the clocks of the system: they continue, and nothing is mistaken for a suspension.
func TestClockGoesOn(t *testing.T) {
	var c clock
	c.setUp(nil)
	last := c.read()
	for range 1000 {
		c.checkSuspension()
		if now := c.read(); now < last {
			t.Fatalf("the clock went back from %d to %d", last, now)
		} else {
			last = now
		}
	}
}
