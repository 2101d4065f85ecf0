package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
)

// openRulings makes the book of rulings and puts those in force that are kept. A store that does not answer is no error: they are
// read as soon as it does.
func (s *Server) openRulings(ctx context.Context) error {
	keeper, err := s.rulingsKeeper()
	if err != nil {
		return invalid("State", "%w", err)
	}
	s.rulings, err = rulings.New(keeper, rulings.Options{
		Resolve: s.resolveRuling, Note: s.rulingNote, OnChange: s.gate.Rule, Logger: s.log, MeterProvider: s.telemetry.meters,
	})
	if err != nil {
		return err
	}
	_ = s.rulings.Read(ctx) // which logs it
	return nil
}

// rulingsKeeper returns what keeps rulings: the store, the file beside the state, or this process.
func (s *Server) rulingsKeeper() (rulings.Keeper, error) {
	switch {
	case s.stores.Rulings != nil:
		return s.stores.Rulings, nil
	case s.opts.State != "":
		return rulings.InFile(s.opts.State + ".rulings")
	}
	return rulings.InMemory(), nil
}

// resolveRuling checks a ruling by its policy, or by the rules of Envoy.
func (s *Server) resolveRuling(r *rulings.Ruling) error {
	if strings.HasPrefix(r.Policy, rulings.EnvoyPrefix) {
		return &rulings.FieldError{Field: "policy", Err: fmt.Errorf("rulings about descriptors of Envoy are not supported")}
	}
	return s.gate.ResolveRuling(r)
}

// rulingNote says what keeps a ruling from being carried out.
func (s *Server) rulingNote(r *rulings.Ruling) string {
	if strings.HasPrefix(r.Policy, rulings.EnvoyPrefix) {
		return "" // of a domain whose rules may be there later
	}
	return s.gate.RulingNote(r)
}
