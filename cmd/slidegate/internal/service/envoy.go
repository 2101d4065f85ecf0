package service

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy/xds"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/store"
)

// openEnvoy creates the Envoy service, if there are rules or a listener for it.
func (s *Server) openEnvoy() error {
	domains, err := LoadDomains(s.opts.Envoy, s.opts.File.Envoy.Files...)
	if err != nil || s.opts.GRPC == "" && !s.rulesConfigured() {
		return err
	}
	s.local = domains
	options := s.opts.EnvoyOptions
	options.Logger, options.MeterProvider, options.ClosedIsError = s.log, s.telemetry.meters, s.opts.File.Service.Failure == 0
	s.gate.CountUnmatched(gate.GRPC, 0)
	options.OnUnmatched = func() { s.gate.CountUnmatched(gate.GRPC, 1) }
	options.OnRefused, options.Await = s.keys.refused, s.opts.XDS.Address != ""
	options.Seen = s.record
	st := store.In(s.stores.Store, cmp.Or(s.opts.File.Service.Failure, store.FailClosed))
	if s.envoy, err = envoy.New(st, domains, options); err != nil || !options.Await {
		return err
	}
	s.xds, err = xds.New(s.opts.XDS, s.log, s.telemetry.meters, s.setRemote)
	return err
}

// rulesConfigured reports whether rules for Envoy are configured, in files or from a management server.
func (s *Server) rulesConfigured() bool { return len(s.opts.Envoy) > 0 || s.opts.XDS.Address != "" }

// setRemote replaces the rules that the management server sent before. On an error, nothing changes.
func (s *Server) setRemote(domains []*envoy.Domain) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if err := s.envoy.Reload(slices.Concat(s.local, domains)); err != nil {
		return err
	}
	s.remote = domains
	s.envoy.RulesReceived()
	return nil
}

// LoadDomains reads files in the format of envoyproxy/ratelimit. Several files may describe one domain. Errors
// about the paths in named are about the field envoy of a policy file.
func LoadDomains(paths []string, named ...string) ([]*envoy.Domain, error) {
	var domains []*envoy.Domain
	var all []error
	for _, path := range paths {
		option := "Envoy"
		if slices.Contains(named, path) {
			option = "envoy"
		}
		files, err := yamlfile.Files(path)
		if err != nil {
			all = append(all, invalid(option, "%w", err))
		}
		for _, file := range files {
			domain, err := envoy.Load(file)
			var unreadable *fs.PathError
			if errors.As(err, &unreadable) {
				err = invalid(option, "%w", unreadable)
			}
			if err != nil {
				all = append(all, err)
				continue
			}
			domains = append(domains, domain)
		}
	}
	domains, err := envoy.Merge(domains)
	return domains, errors.Join(append(all, err)...)
}
