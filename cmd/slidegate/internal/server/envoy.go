package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/envoy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/config"
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
	files, err := rulesIn(paths)
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

// rulesIn returns the files of rules: those that are named, and those of folders that are named: all that end in .yaml or .yml,
// in the order of their names, but for hidden ones, of which Kubernetes makes some.
func rulesIn(paths []string) (files []string, err error) {
	for _, path := range paths {
		entries, notFolder := os.ReadDir(path)
		if notFolder != nil {
			files = append(files, path) // whoever reads it says what is wrong with it
			continue
		}
		before := len(files)
		for _, entry := range entries {
			if name := entry.Name(); !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name)) {
				files = append(files, filepath.Join(path, name))
			}
		}
		if len(files) == before {
			err = errors.Join(err, fmt.Errorf("the folder %s has no file that ends in .yaml or .yml", path))
		}
	}
	return files, err
}
