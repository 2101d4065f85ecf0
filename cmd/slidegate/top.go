package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"
)

// topCommand shows whom a service refuses the most.
type topCommand struct {
	Server string        `default:"http://127.0.0.1:8082" placeholder:"URL" help:"The admin door of the service. (default: http://127.0.0.1:8082)"`
	Token  string        `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"The token to show the service."`
	N      int           `short:"n" default:"20" help:"How many keys to show."`
	Watch  time.Duration `placeholder:"2s" help:"Show them again and again, so often."`
	Format string        `enum:"text,json" default:"text" help:"How to print them: text, json."`
}

// refusedKey is a line of the list.
type refusedKey struct {
	Policy  string
	Key     string
	Refused int64
	TooMany int64 `json:"too_many"`
	Last    time.Time
}

// Run prints the list, once or until it is told to end.
func (t *topCommand) Run(ctx context.Context, c *console) error {
	asked, err := newClient(t.Server, t.Token)
	if err != nil {
		return err
	}
	defer asked.close()
	if t.Watch < 0 {
		return errors.New("--watch: must be above 0")
	}
	for {
		err := t.show(ctx, c, asked)
		if t.Watch == 0 || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // this is how a watch ends
		case <-time.After(t.Watch):
		}
		if t.Format == "text" {
			fmt.Fprintln(c.out)
		}
	}
}

func (t *topCommand) show(ctx context.Context, c *console, asked *client) error {
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
	return printTop(c, list.Keys)
}

func printTop(c *console, keys []refusedKey) error {
	if len(keys) == 0 {
		_, err := fmt.Fprintln(c.out, "nobody was refused yet")
		return err
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "refused\tlast\tpolicy\t key")
	for _, k := range keys {
		refused := fmt.Sprint(k.Refused)
		if k.TooMany > 0 {
			refused = fmt.Sprintf("%d to %d", k.Refused-k.TooMany, k.Refused)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t %q\n", refused, k.Last.Local().Format(time.TimeOnly), k.Policy, k.Key)
	}
	return w.Flush()
}
