package main

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/config"
)

// listeners are the names of all listeners, in the order in which they are told.
var listeners = []string{"http", "grpc", "resp", "proxy", "admin", "metrics"}

// logWelcome is welcome for logs that a program reads: where the service listens, in the format of all other lines.
func (s *serveCommand) logWelcome(log *slog.Logger, running *server.Server, file *config.File) {
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

// envoyLine says what Envoy is answered by; empty without rules.
func (s *serveCommand) envoyLine(running *server.Server) string {
	var names []string
	rules := 0
	for _, domain := range running.Domains() {
		names, rules = append(names, domain.Name()), rules+domain.Rules()
	}
	sent := ""
	if s.XDS != "" {
		sent = "rules from the management server at " + s.XDS
	}
	if len(names) == 0 {
		return sent
	}
	if sent != "" {
		sent = ", and " + sent
	}
	return fmt.Sprintf("%s in %s: %s", howMany(rules, "rule", "rules"), howMany(len(names), "domain", "domains"), fewOf(names)) + sent
}

// fewOf returns names as they fit on a line.
func fewOf(names []string) string {
	const most = 8
	if len(names) > most {
		names = append(names[:most:most], "...")
	}
	return strings.Join(names, ", ")
}

// readable writes durations as people do, as 10s, where slog's JSON would write a number of nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Microsecond).String())
	}
	return a
}

// toldError is an error that was logged, and is not to be told again.
type toldError struct{ error }

// Unwrap returns the error itself.
func (e toldError) Unwrap() error { return e.error }
