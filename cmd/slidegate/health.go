package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// healthCommand asks a service whether it is ready, for health checks that run a program in the container, such as Docker's. It ends with
// exitOK or exitRefused, because Docker reserves the status 2.
type healthCommand struct {
	Server string `default:"http://127.0.0.1:8080" placeholder:"URL" help:"URL of the service's listener for HTTP, admin or metrics, or unix:/path. (default: http://127.0.0.1:8080)" group:"Service"`
	serverTLS
}

// healthTimeout is shorter than the timeout of the health check in the image, so that the reason is printed.
const healthTimeout = 2 * time.Second

// Run prints what the service reports, or why it is not ready.
func (h *healthCommand) Run(ctx context.Context, c *console) error {
	text, err := h.readiness(ctx)
	if err != nil {
		fmt.Fprintf(c.err, "slidegate: %v\n", err)
		return errRefused
	}
	_, err = fmt.Fprintln(c.out, text)
	return err
}

// readiness returns the text of /readyz, or an error that says why the service is not ready.
func (h *healthCommand) readiness(ctx context.Context) (string, error) {
	service, err := newClient("--server", h.Server, "", h.serverTLS)
	if err != nil {
		return "", err
	}
	defer service.http.CloseIdleConnections()
	service.http.Timeout = healthTimeout
	status, body, err := service.send(ctx, http.MethodGet, "/readyz", nil)
	text := strings.TrimSpace(string(body))
	switch {
	case err != nil:
		return "", err
	case status != http.StatusOK:
		return "", service.problem(status, "/readyz", body)
	case text != "ready" && !strings.HasPrefix(text, "degraded: "): // the application behind a proxy, or another program
		return "", fmt.Errorf("%s: the response is not from a Slidegate service; for a slidegate proxy, use its admin listener: --server %s", h.Server, adminURL)
	}
	return text, nil
}
