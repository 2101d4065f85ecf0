package worstcase

import (
	"fmt"
	"strings"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
)

// Obedient returns the share of its quota that an obedient client gets: one that always has requests to send, requests one
// unit at a time, and waits for RetryAfter after each refusal.
func Obedient(l rule.Limit) float64 {
	return obedient(l, 60*7) // a multiple of cycles of 2, 3 and 7 parts
}

// obedient is the share in so many windows.
func obedient(l rule.Limit, windows rule.Micros) float64 {
	const early = 10 // the first windows, in which a full quota is free, are left out
	var s rule.State
	var admitted int64
	begin := epoch + l.Window/3 // not at the start of a window: clients arrive at any time
	for now := begin; now < begin+(early+windows)*l.Window; {
		answer, _ := l.TakeOne(&s, now, 1)
		if now >= begin+early*l.Window {
			admitted += answer.Granted
		}
		now += answering.After(&answer)
	}
	return float64(admitted) / float64(int64(windows)*l.Quota)
}

// quotasInTable are the quotas in the table of shares.
var quotasInTable = []int64{1, 2, 5, 10, 100, 1000}

// ObedientTable returns the shares as a table in Markdown.
func ObedientTable() string {
	var b strings.Builder
	b.WriteString("| limit |")
	for _, quota := range quotasInTable {
		fmt.Fprintf(&b, " quota %d |", quota)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(quotasInTable)) + "\n")
	row := func(name string, limits ...rule.Limit) { // the least of their shares
		fmt.Fprintf(&b, "| %s |", name)
		for _, quota := range quotasInTable {
			share := 1.0
			for _, l := range limits {
				l.Quota = quota
				share = min(share, Obedient(normalize(l)))
			}
			fmt.Fprintf(&b, " %.2f |", share)
		}
		b.WriteString("\n")
	}
	row("no algorithm named", rule.Limit{})
	even := []rule.Limit{{Algorithm: rule.SlidingLog}, {Algorithm: rule.FixedWindow}, {Algorithm: rule.TokenBucket}}
	for _, segments := range segmentsInTable {
		even = append(even, rule.Limit{Algorithm: rule.SlidingWindow, Overlap: rule.OverlapDown, Segments: segments})
	}
	row("`sliding-log`, `fixed-window`, `token-bucket`, `sliding-window` with `down`", even...)
	for _, overlap := range []rule.Overlap{rule.OverlapUp, rule.OverlapWhole} {
		for _, segments := range segmentsInTable {
			name := fmt.Sprintf("`sliding-window`, `%s`, %d segments", overlap, segments)
			row(strings.Replace(name, " 1 segments", " 1 segment", 1), rule.Limit{Algorithm: rule.SlidingWindow, Overlap: overlap, Segments: segments})
		}
	}
	return b.String()
}
