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

// topCommand shows the keys that a service has refused most often.
type topCommand struct {
	Server string `default:"http://127.0.0.1:8082" placeholder:"URL" help:"URL of the service's admin listener. (default: http://127.0.0.1:8082)"`
	Token  string `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"Token to send to the service."`
	serverTLS
	N      int           `short:"n" default:"20" help:"Number of keys to show."`
	Watch  time.Duration `placeholder:"2s" help:"Refresh the list at this interval."`
	Format string        `enum:"text,json" default:"text" help:"Output format: text, json."`
}

// refusedKey is one line of the list.
type refusedKey struct {
	Policy  string
	Key     string
	Rule    string // the Envoy rule, if any
	Refused int64
	TooMany int64 `json:"too_many"`
	Last    time.Time
	Limits  []string
}

// Run prints the list, once or, with --watch, until ctx ends.
func (t *topCommand) Run(ctx context.Context, c *console) error {
	service, err := newClient(t.Server, t.Token, t.serverTLS)
	if err != nil {
		return err
	}
	defer service.close()
	if t.Watch < 0 {
		return errors.New("--watch: must be positive")
	}
	watched := &watch{redraws: c.screen && t.Watch > 0 && t.Format == "text", every: t.Watch}
	for {
		err := t.show(ctx, c, service, watched)
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

func (t *topCommand) show(ctx context.Context, c *console, service *client, watched *watch) error {
	status, text, err := service.send(ctx, http.MethodGet, fmt.Sprintf("/v1/top?n=%d", t.N), nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return service.adminProblem(status, text)
	}
	if t.Format == "json" {
		_, err := fmt.Fprintln(c.out, strings.TrimSpace(string(text)))
		return err
	}
	var list struct{ Keys []refusedKey }
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("%s: the response is not from a Slidegate service: %w", service.base, err)
	}
	_, err = io.WriteString(c.out, watched.screen(list.Keys, time.Now()))
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
func (w *watch) screen(keys []refusedKey, now time.Time) string {
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

func (w *watch) table(to io.Writer, keys []refusedKey, now time.Time) {
	if len(keys) == 0 {
		fmt.Fprintln(to, "no key has been refused yet")
		return
	}
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	rate := ""
	if w.every > 0 {
		rate = "per second\t"
	}
	rule := ""
	hasRules := slices.ContainsFunc(keys, func(k refusedKey) bool { return k.Rule != "" })
	if hasRules {
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
		if hasRules {
			rule = k.Rule + "\t"
		}
		fmt.Fprintf(t, "%s\t%s%s\t%s\t%s\t%s %q\n", refused, rate, k.Last.Local().Format(time.TimeOnly), strings.Join(k.Limits, ", "), k.Policy, rule, k.Key)
	}
	_ = t.Flush() // it is written to memory
}

// rate returns the refusals of a key per second since the last list. It is unknown for a key that was not in the last list,
// because the key may have been refused before.
func (w *watch) rate(k *refusedKey, now time.Time) string {
	before, known := w.counts[k.Policy+"\x00"+k.Key]
	seconds := now.Sub(w.lastShown).Seconds()
	if !known || seconds <= 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(k.Refused-before)/seconds, 'f', 1, 64)
}
