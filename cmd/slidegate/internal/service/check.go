package service

import (
	"log/slog"
	"regexp"
	"strings"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/forward"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
	"github.com/slidegate/slidegate/config"
)

// CheckInput is the input of Check.
type CheckInput struct {
	// File has the policies and the store's URL. A file from config.ParseOffline is enough, since Check does not connect.
	File *config.File
	// Sources are the texts that File was read from, used to add a line and column to errors. They may be nil.
	Sources []config.Source
	// Requests is set if whole requests are matched against all policies together, as in a proxy.
	Requests bool
}

// Check returns the error with which New would reject a file. It does everything that New does, except connect to the store and
// open listeners.
func Check(c CheckInput) error {
	opened, err := openOffline(c.File.Service.Store)
	if err != nil {
		return config.Locate(err, c.Sources...)
	}
	defer func() { _ = opened.Close() }() // nothing is connected
	quiet := slog.New(slog.DiscardHandler)
	g, err := gate.New(c.File, opened.Store, gate.Options{MeterProvider: noop.NewMeterProvider(), Requests: c.Requests})
	if err != nil {
		return config.Locate(err, c.Sources...)
	}
	defer func() { _ = g.Close() }()
	if _, err := forward.New(g, forward.Options{Trusted: c.File.Service.TrustedProxies, Logger: quiet}); err != nil {
		return config.Locate(err, c.Sources...)
	}
	if c.Requests {
		return nil
	}
	domains, err := loadDomains(c.File.Envoy.Files)
	if err == nil {
		err = CheckDomains(domains...)
	}
	return err
}

// LoadDomains reads files, and the files in folders, in the format of envoyproxy/ratelimit, as New does.
func LoadDomains(paths []string) ([]*envoy.Domain, error) { return loadDomains(paths) }

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

// unresolved matches a reference to an environment variable or a file that config.ParseOffline left in the URL of a store.
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

// located adds the line and column to an error about the policy files, if the files can be read.
func (s *Server) located(err error) error {
	sources, unreadable := config.ReadSources(s.opts.Paths...)
	if unreadable != nil {
		return err
	}
	return config.Locate(err, sources...)
}
