package service

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/rulingsapi"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/rulings"
)

// openRulings opens the book of rulings and puts the stored rulings in force. It is not an error if the store does not answer: they are
// read as soon as it does.
func (s *Server) openRulings(ctx context.Context) (err error) {
	if s.book, err = rulings.Open(ctx, s.stores.Store, rulings.Options{Logger: s.log}); err != nil {
		return err
	}
	s.book.Follow(s.applyRulings, s.checkRuling)
	s.rulings = rulingsapi.New(s.book, rulingsapi.Options{
		Note: s.rulingNote, Reach: s.rulingReach, Logger: s.log,
		Transient: s.opts.State == "" && s.stores.Memory != nil,
		Durable:   func() bool { return s.stateFailure() == nil },
		Who:       func(r *http.Request, claimed string) string { return who(r.Context(), claimed) },
	})
	return nil
}

// applyRulings puts rulings in force.
func (s *Server) applyRulings(all []rulings.Ruling) error {
	if s.envoy != nil {
		s.envoy.SetRulings(all)
	}
	return s.gate.SetRulings(all)
}

// unread reports whether the rulings have not been read from the store yet.
func (s *Server) unread() bool {
	_, readAt := s.book.State()
	return readAt.IsZero()
}

// checkRuling checks a ruling against its policy, or against the rules of Envoy.
func (s *Server) checkRuling(r *rulings.Ruling) (known bool, err error) {
	if !strings.HasPrefix(r.Policy, gate.EnvoyPrefix) {
		return true, s.gate.ResolveRuling(r)
	}
	if s.envoy == nil {
		return true, &rulings.FieldError{Field: "policy", Err: errors.New("there is no listener for Envoy; set --grpc or --envoy")}
	}
	if field, err := s.envoy.ResolveRuling(r); err != nil {
		return true, &rulings.FieldError{Field: field, Err: err}
	}
	return true, nil
}

// rulingReach returns which keys a ruling is about, and whether they were seen.
func (s *Server) rulingReach(ctx context.Context, r, before *rulings.Ruling) gate.Reach {
	if strings.HasPrefix(r.Policy, gate.EnvoyPrefix) {
		reach := s.envoy.RulingReach(ctx, r)
		if len(reach.Seen) == 0 && len(s.record.Find(r.Policy, func(key string) bool { return key == r.Key })) > 0 {
			reach.Seen = []string{r.Key}
		}
		return reach
	}
	return s.gate.RulingReach(ctx, r, before, func(matches func(key string) bool) []string { return s.record.Find(r.Policy, matches) })
}

// rulingNote returns the reason why a ruling has no effect.
func (s *Server) rulingNote(r *rulings.Ruling) string {
	if strings.HasPrefix(r.Policy, gate.EnvoyPrefix) {
		if s.envoy == nil {
			return "there is no listener for Envoy"
		}
		return s.envoy.RulingNote(r)
	}
	return s.gate.RulingNote(r)
}

// rulingApplies reports whether a ruling can be applied.
func (s *Server) rulingApplies(r *rulings.Ruling) bool {
	if strings.HasPrefix(r.Policy, gate.EnvoyPrefix) {
		return s.rulingNote(r) == ""
	}
	known, err := s.gate.CheckRuling(r)
	return known && err == nil
}

// NotApplied says how many rulings about the keys of a policy cannot be applied, and why.
type NotApplied struct {
	Policy  string `json:"policy"`
	Rulings int    `json:"rulings"`
	Why     string `json:"why"` // of the first one
}

// notApplied returns the rulings that the policies in force cannot apply. Those about policies that are not here may be for other
// services that share the store.
func (s *Server) notApplied() []NotApplied {
	all := []NotApplied{}
	list, _ := s.book.List()
	for _, r := range list { // by policy
		known, err := s.gate.CheckRuling(&r)
		switch last := len(all) - 1; {
		case !known || err == nil:
		case last >= 0 && all[last].Policy == r.Policy:
			all[last].Rulings++
		default:
			all = append(all, NotApplied{r.Policy, 1, err.Error()})
		}
	}
	return all
}

// recordChange logs what an operator did to a key. Resets are rare, and are also in the log of rulings.
func (s *Server) recordChange(ctx context.Context, operator, operation string, req gate.Request) {
	r := rulings.Ruling{Policy: req.Policy, Key: strings.Clone(req.Key), Kind: rulings.Reset, Why: strings.Clone(req.Why)}
	_, _ = s.checkRuling(&r) // it exists: something was done to it
	attrs := []any{slog.String("policy", r.Policy), slog.String("key_sha256", errtext.HashKey(r.Key)), slog.String("who", operator)}
	if operation != string(rulings.Reset) {
		if !s.admins.empty() { // otherwise clients may do it too
			s.log.Info(operation, append(attrs, slog.Int64("cost", req.Cost))...)
		}
		return
	}
	r.Who = operator
	if _, _, err := s.book.Add(ctx, r); err != nil {
		s.log.Error("a key was reset, but the log of rulings could not be written", append(attrs, slog.Any("error", err))...)
	}
}
