package main

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/config"
)

// listeners are the names of all listeners, in the order in which they are logged.
var listeners = []string{"http", "grpc", "resp", "proxy", "admin", "metrics"}

// logBanner is like printBanner, but writes to a log that a program reads, in the format of all other lines.
func (s *serveCommand) logBanner(log *slog.Logger, running *service.Server, file *config.File) {
	log.Info("running", slog.String("version", version()), slog.String("policies", s.policiesLine(file)),
		slog.String("envoy", envoyLine(running, file)), slog.String("store", s.storeLine(running, file)))
	logListeners(log, running)
}

// logListeners logs where a server listens.
func logListeners(log *slog.Logger, running *service.Server) {
	for _, name := range listeners {
		if at := running.Address(name); at != "" {
			log.Info("listening", slog.String("listener", name), slog.String("address", at))
		}
	}
}

// envoyLine describes the rules for Envoy; it is empty if there are none.
func envoyLine(running *service.Server, file *config.File) string {
	var names []string
	rules := 0
	for _, domain := range running.Domains() {
		names, rules = append(names, domain.Name()), rules+domain.Rules()
	}
	managed := ""
	if at := file.Envoy.XDS.Address; at != "" {
		managed = "rules from the management server at " + at
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
