package main

import (
	"strings"
	"testing"
	"time"
)

// The bar is drawn only on a terminal.
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
			t.Errorf("terminal %v: got %q", terminal, drawn.String())
		}
	}
}

// The bar fills up, shows the time left, and is erased at the end.
func TestProgressBar(t *testing.T) {
	done := int64(0)
	p := &progress{total: 200, done: func() int64 { return done }}
	for _, test := range []struct {
		done int64
		want string
	}{
		{0, "  0% |                        | [10s:?]"},
		{50, " 25% |██████                  | [10s:30s]"},
		{200, "100% |████████████████████████| [10s:0s]"},
		{300, "100% |████████████████████████| [10s:0s]"}, // a file that has grown since
	} {
		done = test.done
		if got := p.bar(10 * time.Second); got != test.want {
			t.Errorf("%d: got %q, want %q", test.done, got, test.want)
		}
	}
	if got := (&progress{total: -1}).bar(10 * time.Second); got != "| [10s]" {
		t.Errorf("without a total: got %q, want a spinner", got)
	}
	var drawn strings.Builder
	bar := newProgress(&console{err: &drawn, terminal: true}, 1000, p.done)
	bar.update(1)
	bar.update(2) // too soon
	bar.close()
	bar.update(3)
	if got := drawn.String(); strings.Count(got, eraseLine) != 2 || !strings.HasSuffix(got, eraseLine) {
		t.Errorf("got %q, want one line that is then erased", got)
	}
}

func TestShortSpans(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1.0k", 1_234_567: "1.2M", 5e9: "5.0G", 7e13: "70.0T"} {
		if got := short(n); got != want {
			t.Errorf("%v: got %q, want %q", n, got, want)
		}
	}
}
