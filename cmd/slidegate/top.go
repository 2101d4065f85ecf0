package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
)

// topCommand shows the keys that the instances of a service have refused most often, and those near to a limit.
type topCommand struct {
	N      int           `short:"n" default:"20" help:"Number of keys to show, up to 50."`
	Since  time.Duration `default:"1h" placeholder:"5m" help:"Count the last 1m, 5m or 1h. (default: 1h)"`
	Watch  time.Duration `placeholder:"2s" help:"Refresh the list at this interval."`
	Server []string      `sep:"none" default:"${server}" placeholder:"URL" help:"URL of ${listener}, or unix:/path. It shows all instances that share its store; repeat the flag for instances that share none. (default: ${server})" group:"Service"`
	Token  string        `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"Token to send to the service." group:"Service"`
	serverTLS
	Format string `enum:"text,json" default:"text" help:"Output format: text, json." group:"Service"`
}

// windowName returns the name that /v1/seen has for the window.
func (t *topCommand) windowName() (string, error) {
	switch t.Since {
	case time.Minute, 5 * time.Minute, time.Hour:
		return fmt.Sprint(int(t.Since.Minutes())), nil
	}
	return "", fmt.Errorf("--since: must be 1m, 5m or 1h, not %v", t.Since)
}

// Run prints the list, once or, with --watch, until ctx ends.
func (t *topCommand) Run(ctx context.Context, c *console) error {
	if t.Watch < 0 || t.Watch == 0 && c.given("watch") {
		return errors.New("--watch: must be positive")
	}
	if t.N < 1 || t.N > service.MaxSeenKeys {
		return fmt.Errorf("-n: must be 1 to %d, not %d", service.MaxSeenKeys, t.N)
	}
	window, err := t.windowName()
	if err != nil {
		return err
	}
	sources, err := t.open(window)
	if err != nil {
		return err
	}
	defer sources.close()
	watched := &watch{redraws: c.screen && t.Watch > 0 && t.Format == "text", every: t.Watch, since: t.Since}
	for {
		err := t.show(ctx, c, sources, watched)
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

// show prints what the services that answer show. The others are an error, except in a watch, which goes on.
func (t *topCommand) show(ctx context.Context, c *console, sources topSources, watched *watch) error {
	list, missing, err := sources.list(ctx, t.N)
	if err != nil {
		return err
	}
	for _, one := range missing {
		list.Missing = append(list.Missing, c.message(one))
	}
	if t.Format == "json" {
		err = json.NewEncoder(c.out).Encode(list)
	} else {
		_, err = io.WriteString(c.out, watched.screen(list, time.Now()))
	}
	if t.Watch == 0 && err == nil {
		err = errors.Join(missing...)
	}
	return err
}
