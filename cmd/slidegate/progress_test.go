package main

import (
	"strings"
	"testing"
)

// A bar is drawn where a person looks, and nowhere else.
func TestProgress(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var drawn strings.Builder
		done := int64(0)
		bar := newProgress(&console{err: &drawn, terminal: terminal}, 1000, func() int64 { return done })
		for done = range int64(1000) {
			bar.update(done * 5000)
		}
		bar.close()
		if got := strings.Contains(drawn.String(), "requests, "); got != terminal {
			t.Errorf("terminal %v, and drew %q", terminal, drawn.String())
		}
	}
}

func TestShort(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1.0k", 1_234_567: "1.2M", 5e9: "5.0G", 7e13: "70.0T"} {
		if got := short(n); got != want {
			t.Errorf("%v is written %q, not %q", n, got, want)
		}
	}
}
