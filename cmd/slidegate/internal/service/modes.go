package service

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/store"
)

// FailureModes describes what decides while the store does not answer, for people: each mode, what it does, and its policies if there
// are several modes.
func (s *Server) FailureModes() string { return *s.modes.Load() }

// setModes sets what FailureModes returns to the modes of a file.
func (s *Server) setModes(file *config.File) {
	usual := cmp.Or(file.Service.Failure, store.FailLocal)
	var policies [store.Modes][]string
	for i := range file.Policies {
		p := &file.Policies[i]
		mode := cmp.Or(p.Failure, usual)
		policies[mode] = append(policies[mode], p.Name)
	}
	var parts []string
	for mode, names := range policies {
		switch {
		case len(names) == len(file.Policies):
			parts = append(parts, s.describeMode(store.Mode(mode)))
		case len(names) > 0:
			parts = append(parts, s.describeMode(store.Mode(mode))+" for "+strings.Join(names, ", "))
		}
	}
	if s.rulesConfigured() && s.opts.File.Service.Failure == 0 {
		parts = append(parts, "an error for Envoy, which then decides itself")
	}
	text := strings.Join(parts, "; ")
	s.modes.Store(&text)
}

// describeMode returns a mode and what it does.
func (s *Server) describeMode(mode store.Mode) string {
	switch mode {
	case store.FailOpen:
		return "open (admits all)"
	case store.FailClosed:
		return "closed (refuses all)"
	}
	if n := s.opts.Instances; n > 1 {
		return fmt.Sprintf("local (each of %d instances counts by itself, up to 1/%d of each limit)", n, n)
	}
	return "local (each instance counts by itself, up to whole limits; --instances divides them)"
}
