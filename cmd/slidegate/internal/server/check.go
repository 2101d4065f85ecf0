package server

import (
	"log/slog"
	"regexp"
	"strings"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/envoy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/forward"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores"
	"github.com/slidegate/slidegate/config"
)

// Checked is what Check looks at.
type Checked struct {
	// File has the policies, and where the store is; config.ParseOffline will do, since nothing is connected to.
	File *config.File
	// Sources are what File was read from, so that errors have a line and a column. They may be nil.
	Sources []config.Source
	// Requests says that whole requests face the policies together, as in a proxy.
	Requests bool
}

// Check returns the error with which New would refuse a file: it makes all that New makes of it, but for the connection to the
// store, and the doors.
func Check(c Checked) error {
	opened, err := sketch(c.File.Service.Store)
	if err != nil {
		return config.Locate(err, c.Sources...)
	}
	defer func() { _ = opened.Close() }() // nothing is connected
	quiet := slog.New(slog.DiscardHandler)
	made, err := gate.New(c.File, opened.Stores, gate.Options{MeterProvider: noop.NewMeterProvider(), Requests: c.Requests})
	if err != nil {
		return config.Locate(err, c.Sources...)
	}
	defer func() { _ = made.Close() }()
	if _, err := forward.New(made, forward.Options{Trusted: c.File.Service.TrustedProxies, Logger: quiet}); err != nil {
		return config.Locate(err, c.Sources...)
	}
	return nil
}

// LoadDomains reads files in the format of envoyproxy/ratelimit, and those of folders, as New does.
func LoadDomains(paths []string) ([]*envoy.Domain, error) { return loadDomains(paths) }

// CheckDomains returns the error with which New would refuse to serve these domains together, from a store that takes every limit.
func CheckDomains(domains ...*envoy.Domain) error {
	opened, err := stores.Sketch("memory:")
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	_, err = envoy.New(opened.Closed, domains, envoy.Options{MeterProvider: noop.NewMeterProvider()})
	return err
}

// unset is a variable of the environment, or a file, that config.ParseOffline left in the URL of a store.
var unset = regexp.MustCompile(`\$\{[^}]+\}`)

// sketch opens a store without connecting to it. A variable that is not set could be a 1: a host, a port, a user or a password.
// Where it stands for anything else, the store is not known well enough to be refused, and is taken for one in memory, which takes
// every limit.
func sketch(url string) (*stores.Opened, error) {
	opened, err := stores.Sketch(unset.ReplaceAllString(url, "1"))
	if err == nil {
		return opened, nil
	}
	scheme, rest, _ := strings.Cut(url, "://")
	end := strings.IndexAny(rest, "/?")
	if unset.MatchString(scheme) || end >= 0 && unset.MatchString(rest[end:]) {
		return stores.Sketch("memory:")
	}
	return nil, err
}

// located returns an error about the files of policies with its line and column, if the files can be read.
func (s *Server) located(err error) error {
	sources, unreadable := config.ReadSources(s.opts.Paths...)
	if unreadable != nil {
		return err
	}
	return config.Locate(err, sources...)
}
