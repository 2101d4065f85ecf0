package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// watch is the state of a list that is shown repeatedly.
type watch struct {
	redraws   bool // overwrites the previous list, on a terminal
	every     time.Duration
	since     time.Duration
	lastShown time.Time        // time of the last list; zero if there was none
	counts    map[string]int64 // refusals in the last list
}

// Terminal control sequences: move to the upper left corner, clear to the end of the line, clear to the end of the screen.
const (
	toCorner  = "\x1b[H"
	clearLine = "\x1b[K"
	clearRest = "\x1b[J"
)

// screen formats a list, with the rate of refusals since the last one.
func (w *watch) screen(list *topList, now time.Time) string {
	var b strings.Builder
	if w.redraws {
		fmt.Fprintf(&b, "Most refused in the last %s, every %v, at %s\n\n", list.window, w.every, now.Local().Format(time.TimeOnly))
	}
	w.table(&b, list, now)
	counts := make(map[string]int64, len(list.Keys))
	for _, k := range list.Keys {
		counts[k.name()] = k.Refused
	}
	w.lastShown, w.counts = now, counts
	if !w.redraws {
		return b.String()
	}
	return toCorner + strings.ReplaceAll(b.String(), "\n", clearLine+"\n") + clearRest
}

func (w *watch) table(to io.Writer, list *topList, now time.Time) {
	if len(list.Keys) == 0 {
		fmt.Fprintf(to, "no key has been refused in the last %s\n", list.window)
	} else {
		w.refused(to, list.Keys, now)
	}
	if len(list.Nearest) > 0 {
		fmt.Fprintln(to)
		rows := [][]string{{"used", "admitted", "limit", "policy", " key"}}
		for _, k := range list.Nearest {
			rows = append(rows, []string{fmt.Sprintf("%.0f%%", 100*k.Share), atLeast(k.Admitted, k.AtLeast), k.Limit, k.Policy, " " + k.text()})
		}
		_ = writeTable(to, tabwriter.AlignRight, rows) // to memory
	}
	fmt.Fprintf(to, "\n%s\n", list.scope())
	for _, one := range list.Missing {
		if w.every > 0 { // otherwise it is the error of the command
			fmt.Fprintf(to, "not shown: %s\n", one)
		}
	}
}

func (w *watch) refused(to io.Writer, keys []topKey, now time.Time) {
	hasRules := slices.ContainsFunc(keys, func(k topKey) bool { return k.Rule != "" })
	row := func(refused, rate, admitted, last, limits, policy, rule, key string) []string {
		cells := []string{refused, rate, admitted, last, limits, policy, rule, " " + key}
		if !hasRules {
			cells = slices.Delete(cells, 6, 7)
		}
		if w.every == 0 {
			cells = slices.Delete(cells, 1, 2)
		}
		return cells
	}
	rows := [][]string{row("refused", "per second", "admitted", "last", "by", "policy", "rule", "key")}
	for _, k := range keys {
		policy := k.Policy
		if k.Shadow {
			policy += " (shadow)"
		}
		rows = append(rows, row(atLeast(k.Refused, k.AtLeast), w.rate(&k, now), atLeast(k.Admitted, k.AtLeast), k.Last.Local().Format(time.TimeOnly),
			k.reason(), policy, k.Rule, k.text()))
	}
	_ = writeTable(to, tabwriter.AlignRight, rows) // to memory
}

// atLeast formats a count that may be higher.
func atLeast(n int64, more bool) string {
	if more {
		return strconv.FormatInt(n, 10) + "+"
	}
	return strconv.FormatInt(n, 10)
}

// rate returns the refusals of a key per second since the last list. It is unknown for a key that was not in the last list,
// because the key may have been refused before.
func (w *watch) rate(k *topKey, now time.Time) string {
	before, known := w.counts[k.name()]
	seconds := now.Sub(w.lastShown).Seconds()
	if !known || seconds <= 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(max(k.Refused-before, 0))/seconds, 'f', 1, 64) // refusals leave the window too
}
