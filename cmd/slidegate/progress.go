package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

const (
	barWidth  = 24                     // characters between the brackets
	drawEvery = 100 * time.Millisecond // faster changes are not visible
	eraseLine = "\r\x1b[K"
)

// progress draws a progress bar with the rate and the time left on a terminal. The zero value draws nothing.
type progress struct {
	to     io.Writer // nil draws nothing
	total  int64     // negative if unknown
	done   func() int64
	begun  time.Time
	drawn  time.Time // the last time
	frames int       // number of times it was drawn
}

// newProgress returns a bar that is full at total, or a spinner if total is negative. It draws nothing if c.err is not a terminal.
func newProgress(c *console, total int64, done func() int64) *progress {
	if !c.terminal {
		return &progress{}
	}
	return &progress{to: c.err, total: total, done: done, begun: time.Now()}
}

// update shows how many requests have been decided.
func (p *progress) update(requests int64) {
	now := time.Now()
	if p.to == nil || now.Sub(p.drawn) < drawEvery {
		return
	}
	p.drawn = now
	p.frames++
	elapsed := now.Sub(p.begun)
	rate := float64(requests) / max(elapsed.Seconds(), 1e-3)
	fmt.Fprintf(p.to, "%s%s requests, %s/s %s", eraseLine, short(float64(requests)), short(rate), p.bar(elapsed)) // a bar that cannot be drawn is not worth an error
}

// bar formats the share that is done, the time elapsed and the time left.
func (p *progress) bar(elapsed time.Duration) string {
	spent := elapsed.Round(time.Second)
	if p.total <= 0 {
		return fmt.Sprintf("%c [%v]", `|/-\`[p.frames%4], spent)
	}
	part := min(1, float64(p.done())/float64(p.total))
	filled := int(part * barWidth)
	left := "?"
	if part > 0 {
		left = time.Duration(float64(elapsed) * (1 - part) / part).Round(time.Second).String()
	}
	return fmt.Sprintf("%3.0f%% |%s%s| [%v:%s]", 100*part, strings.Repeat("█", filled), strings.Repeat(" ", barWidth-filled), spent, left)
}

// close erases the bar.
func (p *progress) close() {
	if p.to != nil {
		fmt.Fprint(p.to, eraseLine)
		p.to = nil
	}
}

// short formats a number in a few characters: 950, 1.2k, 34.5M.
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
