package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// progress draws a bar with the rate and the time left, where a person can see it.
type progress struct {
	bar    *progressbar.ProgressBar
	done   func() int64 // how much of the total
	begun  time.Time
	closed bool
}

// newProgress returns a bar towards total, or one that only turns if that is negative. It draws nothing if w is not a
// terminal.
func newProgress(c *console, total int64, done func() int64) *progress {
	if !c.terminal {
		return &progress{}
	}
	bar := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(c.err),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSpinnerType(14),
	)
	return &progress{bar: bar, done: done, begun: time.Now()}
}

// update shows how many requests have been decided.
func (p *progress) update(requests int64) {
	if p.bar == nil || p.closed {
		return
	}
	rate := float64(requests) / max(time.Since(p.begun).Seconds(), 1e-3)
	p.bar.Describe(fmt.Sprintf("%s requests, %s/s", short(float64(requests)), short(rate)))
	_ = p.bar.Set64(p.done()) // what cannot be drawn is not worth an error
}

// close takes the bar away.
func (p *progress) close() {
	if p.bar != nil && !p.closed {
		p.closed = true
		_ = p.bar.Clear()
	}
}

// short writes a number in three or four characters: 950, 1.2k, 34.5M.
func short(n float64) string {
	for _, unit := range []string{"", "k", "M", "G"} {
		if n < 1000 {
			if unit == "" {
				return fmt.Sprintf("%.0f", n)
			}
			return fmt.Sprintf("%.1f%s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.1fT", n)
}
