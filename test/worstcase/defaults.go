package worstcase

import (
	"fmt"
	"strings"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// The quotas and windows for which the default is searched: on both sides of 100, and windows that divide by 50, 56 and 60.
var (
	defaultQuotas  = []int64{1, 2, 5, 60, 100, 101, 600, 10_000}
	defaultWindows = []time.Duration{time.Second, 7 * time.Second, time.Minute, time.Hour}
)

// DefaultFinding is the result for one limit that names no algorithm.
type DefaultFinding struct {
	Limit   rule.Limit
	Most    Finding // the most units in a window
	Changed Finding // the same, if some of the requests come under another quota, which is smaller
	Share   float64 // the share of its quota that an obedient client gets
}

// FindDefault searches for the worst case of the default, with the windows in the inner loop.
func FindDefault(e Effort) (found []DefaultFinding) {
	for _, quota := range defaultQuotas {
		for _, window := range defaultWindows {
			l := defaultLimit(quota, window)
			f := DefaultFinding{Limit: l, Most: Search(l, MostIn(l.Window), e)}
			p := newPlayer(l)
			other := defaultLimit(max(1, quota/2), window)
			p.other = &other
			f.Changed = p.search(MostIn(l.Window), e)
			f.Share = obedient(l, rule.Micros(l.Parts())) // a whole number of cycles of a window and a part
			found = append(found, f)
		}
	}
	return found
}

func defaultLimit(quota int64, window time.Duration) rule.Limit {
	l, err := rule.Limit{Quota: quota, Window: rule.Micros(window.Microseconds())}.Normalize()
	if err != nil {
		panic(err)
	}
	return l
}

// DefaultTable returns the results as a table in Markdown.
func DefaultTable(found []DefaultFinding) string {
	var b strings.Builder
	b.WriteString("| quota | most in any window |")
	for _, window := range defaultWindows {
		fmt.Fprintf(&b, " share in %s |", short(window))
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(defaultWindows)))
	for i, f := range found {
		if i%len(defaultWindows) == 0 {
			most := int64(0)
			for _, f := range found[i : i+len(defaultWindows)] {
				most = max(most, f.Most.Most, f.Changed.Most)
			}
			fmt.Fprintf(&b, "\n| %d | %d |", f.Limit.Quota, most)
		}
		fmt.Fprintf(&b, " %.3f |", f.Share)
	}
	return b.String() + "\n"
}

// short formats a window as limits are written, such as 1m.
func short(window time.Duration) string {
	text := window.String()
	text = strings.TrimSuffix(text, "0s")
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
