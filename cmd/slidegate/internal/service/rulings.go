package service

import (
	"context"
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
	s.book.Follow(s.gate.SetRulings, s.checkRuling)
	s.rulings = rulingsapi.New(s.book, rulingsapi.Options{
		Note: s.gate.RulingNote, Reach: s.rulingReach, Logger: s.log,
		Transient: s.opts.State == "" && s.stores.Memory != nil,
		Durable:   func() bool { return s.stateFailure() == nil },
		Who:       func(r *http.Request, claimed string) string { return who(r.Context(), claimed) },
	})
	return nil
}

// unread reports whether the rulings have not been read from the store yet.
func (s *Server) unread() bool {
	_, readAt := s.book.State()
	return readAt.IsZero()
}

// checkRuling checks a ruling against its policy.
func (s *Server) checkRuling(r *rulings.Ruling) (known bool, err error) {
	return true, s.gate.ResolveRuling(r)
}

// rulingReach returns which keys a ruling is about, and whether they were seen.
func (s *Server) rulingReach(ctx context.Context, r, before *rulings.Ruling) gate.Reach {
	return s.gate.RulingReach(ctx, r, before, func(matches func(key string) bool) []string { return s.record.Find(r.Policy, matches) })
}

// rulingApplies reports whether a ruling can be applied.
func (s *Server) rulingApplies(r *rulings.Ruling) bool {
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
