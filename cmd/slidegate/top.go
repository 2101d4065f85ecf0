package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
)

// topCommand shows the keys that a service has refused most often.
type topCommand struct {
	N     int           `short:"n" default:"20" help:"Number of keys to show."`
	Watch time.Duration `placeholder:"2s" help:"Refresh the list at this interval."`
	serviceFlags
}

// Run prints the list, once or, with --watch, until ctx ends.
func (t *topCommand) Run(ctx context.Context, c *console) error {
	if t.Watch < 0 {
		return errors.New("--watch: must be positive")
	}
	watched := &watch{redraws: c.screen && t.Watch > 0 && t.Format == "text", every: t.Watch}
	for {
		err := t.show(ctx, c, watched)
		if t.Watch == 0 || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // a watch ends with ctx, without an error
		case <-time.After(t.Watch):
		}
		if t.Format == "text" && !watched.redraws {
			fmt.Fprintln(c.out)
		}
	}
}

func (t *topCommand) show(ctx context.Context, c *console, watched *watch) error {
	var list struct{ Keys []service.RefusedKey }
	if printed, err := t.send(ctx, c, http.MethodGet, fmt.Sprintf("/v1/top?n=%d", t.N), nil, &list); printed || err != nil {
		return err
	}
	_, err := io.WriteString(c.out, watched.screen(list.Keys, time.Now()))
	return err
}

// watch is the state of a list that is shown repeatedly.
type watch struct {
	redraws   bool // overwrites the previous list, on a terminal
	every     time.Duration
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
func (w *watch) screen(keys []service.RefusedKey, now time.Time) string {
	var b strings.Builder
	if w.redraws {
		fmt.Fprintf(&b, "Most refused since the service started, every %v, at %s\n\n", w.every, now.Local().Format(time.TimeOnly))
	}
	w.table(&b, keys, now)
	counts := make(map[string]int64, len(keys))
	for _, k := range keys {
		counts[k.Policy+"\x00"+k.Key] = k.Refused
	}
	w.lastShown, w.counts = now, counts
	if !w.redraws {
		return b.String()
	}
	return toCorner + strings.ReplaceAll(b.String(), "\n", clearLine+"\n") + clearRest
}

func (w *watch) table(to io.Writer, keys []service.RefusedKey, now time.Time) {
	if len(keys) == 0 {
		fmt.Fprintln(to, "no key has been refused yet")
		return
	}
	hasRules := slices.ContainsFunc(keys, func(k service.RefusedKey) bool { return k.Rule != "" })
	row := func(refused, rate, last, limits, policy, rule, key string) []string {
		cells := []string{refused, rate, last, limits, policy, rule, " " + key}
		if !hasRules {
			cells = slices.Delete(cells, 5, 6)
		}
		if w.every == 0 {
			cells = slices.Delete(cells, 1, 2)
		}
		return cells
	}
	rows := [][]string{row("refused", "per second", "last", "limits", "policy", "rule", "key")}
	for _, k := range keys {
		refused := fmt.Sprint(k.Refused)
		if k.TooMany > 0 {
			refused = fmt.Sprintf("%d to %d", k.Refused-k.TooMany, k.Refused)
		}
		policy := k.Policy
		if k.Shadow {
			policy += " (shadow)"
		}
		rows = append(rows, row(refused, w.rate(&k, now), k.Last.Local().Format(time.TimeOnly), strings.Join(k.Limits, ", "), policy, k.Rule, strconv.Quote(k.Key)))
	}
	_ = writeTable(to, tabwriter.AlignRight, rows) // to memory
}

// rate returns the refusals of a key per second since the last list. It is unknown for a key that was not in the last list,
// because the key may have been refused before.
func (w *watch) rate(k *service.RefusedKey, now time.Time) string {
	before, known := w.counts[k.Policy+"\x00"+k.Key]
	seconds := now.Sub(w.lastShown).Seconds()
	if !known || seconds <= 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(k.Refused-before)/seconds, 'f', 1, 64)
}
