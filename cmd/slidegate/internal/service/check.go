package service

import (
	"log/slog"
	"regexp"
	"strings"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy/xds"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/forward"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
	"github.com/slidegate/slidegate/config"
)

// Check returns the error with which New would reject a file, which may be read offline. It does everything that New does, except
// connect to the store and open listeners. Requests is set if whole requests are matched against all policies together, as in a
// proxy.
func Check(file *config.File, requests bool) error {
	opened, err := openOffline(file.Service.Store)
	if err != nil {
		return file.Locate(err)
	}
	defer func() { _ = opened.Close() }() // nothing is connected
	quiet := slog.New(slog.DiscardHandler)
	g, err := gate.New(file, opened.Store, gate.Options{MeterProvider: noop.NewMeterProvider(), Requests: requests})
	if err != nil {
		return file.Locate(err)
	}
	defer func() { _ = g.Close() }()
	if _, err := forward.New(g, forward.Options{Logger: quiet}); err != nil {
		return file.Locate(err)
	}
	if requests {
		return nil
	}
	domains, err := LoadDomains(file.Envoy.Files, file.Envoy.Files...)
	if err == nil {
		err = CheckDomains(domains...)
	}
	if err == nil && file.Envoy.XDS.Address != "" {
		_, err = xds.New(file.Envoy.XDS, quiet, noop.NewMeterProvider(), nil)
	}
	return file.Locate(err)
}

// CheckDomains returns the error with which New would reject these domains together, given a store that supports every limit.
func CheckDomains(domains ...*envoy.Domain) error {
	opened, err := open.OpenOffline("memory:")
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	_, err = envoy.New(opened.Store, domains, envoy.Options{MeterProvider: noop.NewMeterProvider()})
	return err
}

// unresolved matches a reference to an environment variable or a file that config.Load left offline in the URL of a store.
var unresolved = regexp.MustCompile(`\$\{[^}]+\}`)

// openOffline opens a store without connecting to it. An unresolved reference is replaced by 1, which is valid as a host, a port,
// a user or a password. If a reference stands for anything else, too little is known about the store to reject it, and
// openOffline returns a store in memory, which supports every limit.
func openOffline(url string) (*open.Opened, error) {
	opened, err := open.OpenOffline(unresolved.ReplaceAllString(url, "1"))
	if err == nil {
		return opened, nil
	}
	scheme, rest, _ := strings.Cut(url, "://")
	end := strings.IndexAny(rest, "/?")
	if unresolved.MatchString(scheme) || end >= 0 && unresolved.MatchString(rest[end:]) {
		return open.OpenOffline("memory:")
	}
	return nil, err
}
