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

// adminFlags select the service for commands that only operators may use.
type adminFlags struct {
	Server string `default:"http://127.0.0.1:8082" placeholder:"URL" help:"URL of the service's admin listener. (default: http://127.0.0.1:8082)" group:"Service"`
	Token  string `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"Token to send to the service." group:"Service"`
	serverTLS
}

// send sends a request to the admin listener, decodes the response into reply, and returns its text. A nil body sends none.
func (f *adminFlags) send(ctx context.Context, method, path string, body, reply any) (text []byte, err error) {
	service, err := newClient(f.Server, f.Token, f.serverTLS)
	if err != nil {
		return nil, err
	}
	defer service.close()
	status, text, err := service.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, service.adminProblem(status, text)
	}
	if err := json.Unmarshal(text, reply); err != nil {
		return nil, fmt.Errorf("%s: the response is not from a Slidegate service: %w", service.base, err)
	}
	return text, nil
}

// printingFlags are adminFlags with an output format.
type printingFlags struct {
	adminFlags
	Format string `enum:"text,json" default:"text" help:"Output format: text, json." group:"Service"`
}

// send is like that of adminFlags, but prints the response if the output format is JSON.
func (f *printingFlags) send(ctx context.Context, c *console, method, path string, body, reply any) (printed bool, err error) {
	text, err := f.adminFlags.send(ctx, method, path, body, reply)
	if err != nil || f.Format != "json" {
		return false, err
	}
	_, err = fmt.Fprintln(c.out, strings.TrimSpace(string(text)))
	return true, err
}

// writeTable writes rows of cells in columns. The alignment is a flag of package tabwriter, or 0.
func writeTable(to io.Writer, alignment uint, rows [][]string) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', alignment)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// reloadCommand makes a service reload its files.
type reloadCommand struct {
	adminFlags
}

// Run reloads the files and prints what changed.
func (r *reloadCommand) Run(ctx context.Context, c *console) error {
	var reply struct {
		service.Changes
		service.Running
	}
	if _, err := r.send(ctx, http.MethodPost, "/v1/reload", nil, &reply); err != nil {
		return err
	}
	for _, r := range reply.Restart {
		fmt.Fprintf(c.out, "restart needed: %s: in force is %s, the file has %s\n", r.Field, r.InForce, r.File)
	}
	for _, n := range reply.NotApplied {
		fmt.Fprintf(c.out, "attention: rulings about the policy %s that it cannot apply: %d; %s; slidegate rulings lists them\n", n.Policy, n.Rulings, n.Why)
	}
	_, err := fmt.Fprintf(c.out, "reloaded: %s; the configuration in force has the hash %s\n", changesLine(&reply.Changes, reply.Loaded), reply.Hash)
	if err == nil && len(reply.Restart)+len(reply.NotApplied) > 0 {
		return errRefused // not everything in the files, or not every ruling, is in force
	}
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
	adminFlags
}

// Run prints the policies in force.
func (r *configRunningCommand) Run(ctx context.Context, c *console) error {
	var now service.Running
	if _, err := r.send(ctx, http.MethodGet, "/v1/config", nil, &now); err != nil {
		return err
	}
	from := "flags"
	if len(now.Paths) > 0 {
		from = strings.Join(now.Paths, ", ")
	}
	_, err := io.WriteString(c.out, fmt.Sprintf("# in force since %s, from %s, hash %s\n%s", now.Loaded.Local().Format(time.DateTime), from, now.Hash, now.Config))
	return err
}
