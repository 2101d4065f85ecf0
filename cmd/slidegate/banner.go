package main

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/config"
)

// listeners are the names of all listeners, in the order in which they are logged.
var listeners = []string{"http", "grpc", "resp", "proxy", "admin", "metrics"}

// logBanner is like printBanner, but writes to a log that a program reads, in the format of all other lines.
func (s *serveCommand) logBanner(log *slog.Logger, running *server.Server, file *config.File) {
	log.Info("running", slog.String("version", version()), slog.String("policies", s.policiesLine(file)),
		slog.String("envoy", s.envoyLine(running)), slog.String("store", s.storeLine(file)))
	logListeners(log, running)
}

// logListeners logs where a server listens.
func logListeners(log *slog.Logger, running *server.Server) {
	for _, name := range listeners {
		if at := running.Address(name); at != "" {
			log.Info("listening", slog.String("listener", name), slog.String("address", at))
		}
	}
}

// envoyLine describes the rules for Envoy; it is empty if there are none.
func (s *serveCommand) envoyLine(running *server.Server) string {
	var names []string
	rules := 0
	for _, domain := range running.Domains() {
		names, rules = append(names, domain.Name()), rules+domain.Rules()
	}
	managed := ""
	if s.XDS != "" {
		managed = "rules from the management server at " + s.XDS
	}
	if len(names) == 0 {
		return managed
	}
	if managed != "" {
		managed = ", and " + managed
	}
	return fmt.Sprintf("%s in %s: %s", plural(rules, "rule", "rules"), plural(len(names), "domain", "domains"), firstFew(names)) + managed
}

// firstFew joins the first names, as many as fit on a line.
func firstFew(names []string) string {
	const maxNames = 8
	if len(names) > maxNames {
		names = append(names[:maxNames:maxNames], "...")
	}
	return strings.Join(names, ", ")
}

// formatDurations is a slog.HandlerOptions.ReplaceAttr function. It formats durations as 10s; slog's JSON handler
// would write a number of nanoseconds.
func formatDurations(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Microsecond).String())
	}
	return a
}

// loggedError wraps an error that has been logged and must not be printed again.
type loggedError struct{ error }

// Unwrap returns the wrapped error.
func (e loggedError) Unwrap() error { return e.error }
