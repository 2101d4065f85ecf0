package server

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/envoy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/config/yamlfile"
)

// openEnvoy makes what answers Envoy, if there are rules or a door for it.
func (s *Server) openEnvoy() error {
	domains, err := loadDomains(s.opts.Envoy)
	if err != nil || s.opts.GRPC == "" && len(domains) == 0 {
		return err
	}
	s.domains = domains
	answers := s.opts.EnvoyAnswers
	answers.Logger, answers.MeterProvider, answers.ClosedIsError = s.log, s.telemetry.meters, s.opts.File.Service.Failure == ""
	answers.OnRefused = s.top.addBy
	st := s.stores.Unanswered
	if !answers.ClosedIsError {
		st = s.fallback(config.FailClosed)
	}
	s.envoy, err = envoy.New(st, domains, answers)
	return err
}

// limitsOf returns the limits that a key of a policy faces, or a descriptor of Envoy.
func (s *Server) limitsOf(policy, key string) []slidegate.Limit {
	if s.envoy != nil && strings.HasPrefix(policy, rulings.EnvoyPrefix) {
		return s.envoy.LimitsOf(policy, key)
	}
	return s.gate.LimitsOf(policy, key)
}

// loadDomains reads files in the format of envoyproxy/ratelimit.
func loadDomains(paths []string) ([]*envoy.Domain, error) {
	var domains []*envoy.Domain
	var all []error
	files, err := yamlfile.Files(paths...)
	if err != nil {
		all = append(all, invalid("Envoy", "%w", err))
	}
	for _, path := range files {
		domain, err := envoy.Load(path)
		var unreadable *fs.PathError
		if errors.As(err, &unreadable) {
			err = invalid("Envoy", "%w", unreadable)
		}
		if err != nil {
			all = append(all, err)
			continue
		}
		domains = append(domains, domain)
	}
	return domains, errors.Join(all...)
}
