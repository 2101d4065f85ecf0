package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// topCommand shows whom a service refuses the most.
type topCommand struct {
	Server string `default:"http://127.0.0.1:8082" placeholder:"URL" help:"The admin door of the service. (default: http://127.0.0.1:8082)"`
	Token  string `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"The token to show the service."`
	serverTLS
	N      int           `short:"n" default:"20" help:"How many keys to show."`
	Watch  time.Duration `placeholder:"2s" help:"Show them again and again, so often."`
	Format string        `enum:"text,json" default:"text" help:"How to print them: text, json."`
}

// refusedKey is a line of the list.
type refusedKey struct {
	Policy  string
	Key     string
	Rule    string // of Envoy
	Refused int64
	TooMany int64 `json:"too_many"`
	Last    time.Time
	Limits  []string
}

// Run prints the list, once or until it is told to end.
func (t *topCommand) Run(ctx context.Context, c *console) error {
	asked, err := newClient(t.Server, t.Token, t.serverTLS)
	if err != nil {
		return err
	}
	defer asked.close()
	if t.Watch < 0 {
		return errors.New("--watch: must be above 0")
	}
	watched := &watch{redraws: c.screen && t.Watch > 0 && t.Format == "text", every: t.Watch}
	for {
		err := t.show(ctx, c, asked, watched)
		if t.Watch == 0 || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // this is how a watch ends
		case <-time.After(t.Watch):
		}
		if t.Format == "text" && !watched.redraws {
			fmt.Fprintln(c.out)
		}
	}
}

func (t *topCommand) show(ctx context.Context, c *console, asked *client, watched *watch) error {
	status, text, err := asked.send(ctx, http.MethodGet, fmt.Sprintf("/v1/top?n=%d", t.N), nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return asked.adminProblem(status, text)
	}
	if t.Format == "json" {
		_, err := fmt.Fprintln(c.out, strings.TrimSpace(string(text)))
		return err
	}
	var list struct{ Keys []refusedKey }
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("%s: this is not an answer of a Slidegate service: %w", asked.base, err)
	}
	_, err = io.WriteString(c.out, watched.screen(list.Keys, time.Now()))
	return err
}

// watch is what a list that is shown again and again remembers.
type watch struct {
	redraws bool // in place of what was shown before, as a terminal can
	every   time.Duration
	shown   time.Time        // when the last list was; zero if none was
	counts  map[string]int64 // of that list
}

// What a terminal is told: to go to the upper left corner, and to clear a line to its end, or everything that follows.
const (
	toCorner  = "\x1b[H"
	clearLine = "\x1b[K"
	clearRest = "\x1b[J"
)

// screen returns what a list looks like, with how often keys were refused since the last one.
func (w *watch) screen(keys []refusedKey, now time.Time) string {
	var b strings.Builder
	if w.redraws {
		fmt.Fprintf(&b, "Refused most since the service started, every %v, at %s\n\n", w.every, now.Local().Format(time.TimeOnly))
	}
	w.table(&b, keys, now)
	counts := make(map[string]int64, len(keys))
	for _, k := range keys {
		counts[k.Policy+"\x00"+k.Key] = k.Refused
	}
	w.shown, w.counts = now, counts
	if !w.redraws {
		return b.String()
	}
	return toCorner + strings.ReplaceAll(b.String(), "\n", clearLine+"\n") + clearRest
}

func (w *watch) table(to io.Writer, keys []refusedKey, now time.Time) {
	if len(keys) == 0 {
		fmt.Fprintln(to, "nobody was refused yet")
		return
	}
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	rate := ""
	if w.every > 0 {
		rate = "per second\t"
	}
	rule := ""
	ruled := slices.ContainsFunc(keys, func(k refusedKey) bool { return k.Rule != "" })
	if ruled {
		rule = "rule\t"
	}
	fmt.Fprintf(t, "refused\t%slast\tlimits\tpolicy\t%s key\n", rate, rule)
	for _, k := range keys {
		refused := fmt.Sprint(k.Refused)
		if k.TooMany > 0 {
			refused = fmt.Sprintf("%d to %d", k.Refused-k.TooMany, k.Refused)
		}
		if w.every > 0 {
			rate = w.rate(&k, now) + "\t"
		}
		if ruled {
			rule = k.Rule + "\t"
		}
		fmt.Fprintf(t, "%s\t%s%s\t%s\t%s\t%s %q\n", refused, rate, k.Last.Local().Format(time.TimeOnly), strings.Join(k.Limits, ", "), k.Policy, rule, k.Key)
	}
	_ = t.Flush() // it is written to memory
}

// rate says how often a key was refused per second since the last list. One that was not in it may have been refused before.
func (w *watch) rate(k *refusedKey, now time.Time) string {
	before, known := w.counts[k.Policy+"\x00"+k.Key]
	seconds := now.Sub(w.shown).Seconds()
	if !known || seconds <= 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(k.Refused-before)/seconds, 'f', 1, 64)
}
