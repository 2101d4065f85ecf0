package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
)

// adminFlags say which service to ask what only operators may.
type adminFlags struct {
	Server string `default:"http://127.0.0.1:8082" placeholder:"URL" help:"The admin door of the service. (default: http://127.0.0.1:8082)" group:"Whom to ask"`
	Token  string `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"The token to show the service." group:"Whom to ask"`
	serverTLS
}

// ask sends a request to the admin door and reads the answer into answer.
func (f *adminFlags) ask(ctx context.Context, method, path string, answer any) error {
	asked, err := newClient(f.Server, f.Token, f.serverTLS)
	if err != nil {
		return err
	}
	defer asked.close()
	status, text, err := asked.send(ctx, method, path, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return asked.adminProblem(status, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s: this is not an answer of a Slidegate service: %w", asked.base, err)
	}
	return nil
}

// inForce is what a service says about its policies.
type inForce struct {
	Hash   string
	Loaded time.Time
	Paths  []string
	Config string
}

// reloadCommand has a service read its files again.
type reloadCommand struct {
	adminFlags
}

// Run reloads, and prints what changed.
func (r *reloadCommand) Run(ctx context.Context, c *console) error {
	var answer struct {
		server.Changes
		inForce
	}
	if err := r.ask(ctx, http.MethodPost, "/v1/reload", &answer); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.out, "reloaded: %s; the files in force have the hash %s\n", changesLine(&answer.Changes, answer.Loaded), answer.Hash)
	return err
}

// changesLine says what changed. The service watches its files, and may have noticed a change by itself before it was asked to reload.
func changesLine(changes *server.Changes, loaded time.Time) string {
	var parts []string
	for _, policies := range []struct {
		what  string
		names []string
	}{{"added", changes.Added}, {"removed", changes.Removed}, {"changed", changes.Changed}} {
		if len(policies.names) > 0 {
			parts = append(parts, policies.what+" "+fewOf(policies.names))
		}
	}
	for _, other := range []struct {
		what    string
		changed bool
	}{
		{"what is set for all policies has changed", changes.Service}, {"new rules of Envoy", changes.Envoy}, {"new tokens", changes.Tokens},
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

// configRunningCommand prints what a service runs with.
type configRunningCommand struct {
	adminFlags
}

// Run prints the policies in force.
func (r *configRunningCommand) Run(ctx context.Context, c *console) error {
	var now inForce
	if err := r.ask(ctx, http.MethodGet, "/v1/config", &now); err != nil {
		return err
	}
	from := "flags"
	if len(now.Paths) > 0 {
		from = strings.Join(now.Paths, ", ")
	}
	_, err := io.WriteString(c.out, fmt.Sprintf("# in force since %s, from %s, hash %s\n%s", now.Loaded.Local().Format(time.DateTime), from, now.Hash, now.Config))
	return err
}
