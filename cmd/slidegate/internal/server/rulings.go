package server

import (
	"context"
	"errors"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
)

// openRulings creates the book of rulings and puts the stored rulings in force. It is not an error if the store does not answer:
// they are read as soon as it does.
func (s *Server) openRulings(ctx context.Context) error {
	keeper, err := s.rulingsKeeper()
	if err != nil {
		return invalid("State", "%w", err)
	}
	s.rulings, err = rulings.New(keeper, rulings.Options{
		Resolve: s.resolveRuling, Reach: s.rulingReach, Transient: s.stores.Rulings == nil && s.opts.State == "", Note: s.rulingNote, OnChange: s.applyRulings, Logger: s.log, MeterProvider: s.telemetry.meters,
	})
	if err != nil {
		return err
	}
	_ = s.rulings.Read(ctx) // logs its error
	return nil
}

// applyRulings puts rulings in force.
func (s *Server) applyRulings(table *rulings.Table) {
	s.gate.SetRulings(table)
	if s.envoy != nil {
		s.envoy.SetRulings(table)
	}
}

// rulingsKeeper returns the keeper of rulings: the store, a file next to the state file, or this process.
func (s *Server) rulingsKeeper() (rulings.Keeper, error) {
	switch {
	case s.stores.Rulings != nil:
		return s.stores.Rulings, nil
	case s.opts.State != "":
		return rulings.InFile(s.opts.State + ".rulings")
	}
	return rulings.InMemory(), nil
}

// resolveRuling checks a ruling against its policy, or against the rules of Envoy.
func (s *Server) resolveRuling(r *rulings.Ruling) error {
	if strings.HasPrefix(r.Policy, rulings.EnvoyPrefix) {
		if s.envoy == nil {
			return &rulings.FieldError{Field: "policy", Err: errors.New("there is no listener for Envoy; set --grpc or --envoy")}
		}
		if field, err := s.envoy.ResolveRuling(r); err != nil {
			return &rulings.FieldError{Field: field, Err: err}
		}
		return nil
	}
	return s.gate.ResolveRuling(r)
}

// rulingReach returns which keys a ruling is about, and whether they were seen.
func (s *Server) rulingReach(ctx context.Context, r *rulings.Ruling) rulings.Reach {
	if strings.HasPrefix(r.Policy, rulings.EnvoyPrefix) {
		return s.envoy.RulingReach(ctx, r)
	}
	return s.gate.RulingReach(ctx, r, func(matches func(key string) bool) []string { return s.top.find(r.Policy, matches) })
}

// rulingNote returns the reason why a ruling has no effect.
func (s *Server) rulingNote(r *rulings.Ruling) string {
	if strings.HasPrefix(r.Policy, rulings.EnvoyPrefix) {
		if s.envoy == nil {
			return "there is no listener for Envoy"
		}
		return s.envoy.RulingNote(r)
	}
	return s.gate.RulingNote(r)
}
