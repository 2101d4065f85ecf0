package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
)

// serviceFlags select a running service, and how to print its responses. The variables server and listener are its default address,
// and what listens there.
type serviceFlags struct {
	Server string `default:"${server}" placeholder:"URL" help:"URL of ${listener}, or unix:/path. (default: ${server})" group:"Service"`
	Token  string `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"Token to send to the service." group:"Service"`
	serverTLS
	Format string `enum:"text,json" default:"text" help:"Output format: text, json." group:"Service"`
}

// send sends a request to the service, and decodes the response into reply. It prints the response if the output format is JSON. A nil
// body sends none.
func (f *serviceFlags) send(ctx context.Context, c *console, method, path string, body, reply any) (printed bool, err error) {
	service, err := newClient("--server", f.Server, f.Token, f.serverTLS)
	if err != nil {
		return false, err
	}
	defer service.http.CloseIdleConnections()
	text, err := service.ask(ctx, method, path, body, reply)
	if err == nil && text != nil && f.Format == "json" {
		_, err = fmt.Fprintln(c.out, strings.TrimSpace(string(text)))
		printed = true
	}
	return printed, err
}

// ask sends a request, and decodes the response into reply. The text is nil if the response has no body.
func (c *client) ask(ctx context.Context, method, path string, body, reply any) (text []byte, err error) {
	status, text, err := c.send(ctx, method, path, body)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNoContent:
		return nil, nil
	case status != http.StatusOK && status != http.StatusTooManyRequests:
		return nil, c.problem(status, path, text)
	}
	if err := json.Unmarshal(text, reply); err != nil {
		return nil, fmt.Errorf("%s: the response is not from a Slidegate service: %w%s", c.base, err, proxyHint(path))
	}
	return text, nil
}

// writeTable writes rows of cells in columns.
func writeTable(to io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// reloadCommand makes a service reload its files.
type reloadCommand struct {
	serviceFlags
}

// Run reloads the files and prints what changed.
func (r *reloadCommand) Run(ctx context.Context, c *console) error {
	var reply reloaded
	printed, err := r.send(ctx, c, http.MethodPost, "/v1/reload", nil, &reply)
	if err == nil && !printed {
		err = reply.write(c.out)
	}
	if err == nil && len(reply.Restart)+len(reply.NotApplied) > 0 {
		return errRefused // not everything in the files, or not every ruling, is in force
	}
	return err
}

// reloaded is the response to a request to reload.
type reloaded struct {
	service.Changes
	service.Running
}

// write prints the response for a person.
func (r *reloaded) write(to io.Writer) error {
	for _, restart := range r.Restart {
		fmt.Fprintf(to, "restart needed: %s: in force is %s, the file has %s\n", restart.Field, restart.InForce, restart.File)
	}
	for _, n := range r.NotApplied {
		fmt.Fprintf(to, "attention: rulings about the policy %s that it cannot apply: %d; %s; slidegate rulings lists them\n", n.Policy, n.Rulings, n.Why)
	}
	_, err := fmt.Fprintf(to, "reloaded: %s; the configuration in force has the hash %s\n", changesLine(&r.Changes, r.Loaded), r.Hash)
	return err
}

// changesLine describes what changed. The service watches its files, and may have loaded a change before the request to reload.
func changesLine(changes *service.Changes, loaded time.Time) string {
	var parts []string
	for _, policies := range []struct {
		what  string
		names []string
	}{{"added", changes.Added}, {"removed", changes.Removed}, {"changed", changes.Changed}} {
		if len(policies.names) > 0 {
			parts = append(parts, policies.what+" "+firstFew(policies.names))
		}
	}
	for _, other := range []struct {
		what    string
		changed bool
	}{
		{"changed settings for all policies", changes.Service}, {"new Envoy rules", changes.Envoy}, {"new tokens", changes.Tokens},
		{"new certificates", changes.Certificates},
	} {
		if other.changed {
			parts = append(parts, other.what)
		}
	}
	if len(parts) == 0 {
		return "nothing has changed since " + loaded.Local().Format(time.DateTime)
	}
	return strings.Join(parts, "; ")
}

// configRunningCommand prints the policies in force in a service.
type configRunningCommand struct {
	serviceFlags
}

// Run prints the policies in force.
func (r *configRunningCommand) Run(ctx context.Context, c *console) error {
	var now service.Running
	if printed, err := r.send(ctx, c, http.MethodGet, "/v1/config", nil, &now); printed || err != nil {
		return err
	}
	from := "flags"
	if len(now.Paths) > 0 {
		from = strings.Join(now.Paths, ", ")
	}
	_, err := io.WriteString(c.out, fmt.Sprintf("# in force since %s, from %s, hash %s\n%s", now.Loaded.Local().Format(time.DateTime), from, now.Hash, now.Config))
	return err
}
