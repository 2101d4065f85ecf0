package gate

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/policy"
)

// Rule puts a table of rulings in force, in place of the one before. They stay in force when policies are reloaded. One about a
// policy that is not there, or whose limits the policy cannot have any more, is left out until a reload makes it possible.
func (g *Gate) Rule(table *rulings.Table) {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	g.ruled.Store(table)
	g.now.Load().rule(table, g.opts.Logger)
}

// rule puts the rulings about a snapshot's policies in force.
func (s *snapshot) rule(table *rulings.Table, log *slog.Logger) {
	now := time.Now()
	for _, p := range s.order {
		var all []policy.Ruling
		for _, r := range table.Of(p.Name, now) {
			made, err := r.Policied()
			if err != nil {
				tellImpossible(log, p.Name, err)
				continue
			}
			all = append(all, made)
		}
		if s.set.Rule(p.place, all) == nil {
			continue
		}
		all = slices.DeleteFunc(all, func(r policy.Ruling) bool {
			err := s.set.CheckRuling(p.place, r)
			if err != nil {
				tellImpossible(log, p.Name, err)
			}
			return err != nil
		})
		_ = s.set.Rule(p.place, all) // all of which were checked
	}
}

func tellImpossible(log *slog.Logger, policy string, err error) {
	log.Error("a ruling cannot be carried out; end it or change it", slog.String("policy", policy), slog.Any("error", err))
}

// ResolveRuling checks a ruling about a key of a policy, and fills in what the policy says: the name of the default policy, the key as
// requests have it, and the names of limits. Of one of the kind Clear, only the policy and the key. An error is a
// rulings.FieldError.
func (g *Gate) ResolveRuling(r *rulings.Ruling) error {
	s := g.now.Load()
	p, err := s.find(r.Policy)
	if err != nil {
		return &rulings.FieldError{Field: "policy", Err: err}
	}
	r.Policy, r.Key = p.Name, p.Key.Canonical(r.Key, p.groups)
	if r.Kind == rulings.Clear {
		return nil
	}
	made, err := r.Policied()
	if err != nil {
		return &rulings.FieldError{Field: "limits", Err: err}
	}
	for i := range made.Limits {
		p.nameLimit(&made.Limits[i])
		r.Limits[i] = made.Limits[i].String()
	}
	if err := s.set.CheckRuling(p.place, made); err != nil {
		return &rulings.FieldError{Field: "limits", Err: err}
	}
	return nil
}

// nameLimit gives a limit without a name that of the policy's limit of the same window, if there is one, so that both have the same
// counts.
func (p *compiled) nameLimit(limit *slidegate.Limit) {
	var found []string
	for i := range p.Limits {
		own := &p.Limits[i]
		if isInFlight(*own) == isInFlight(*limit) && own.Window == limit.Window && own.Calendar == limit.Calendar {
			found = append(found, own.Name)
		}
	}
	if limit.Name == "" && len(found) == 1 {
		limit.Name = found[0]
	}
}

// RulingNote says what keeps a ruling from being carried out, if something does.
func (g *Gate) RulingNote(r *rulings.Ruling) string {
	s := g.now.Load()
	p := s.policies[r.Policy]
	if p == nil {
		return "there is no policy of this name"
	}
	made, err := r.Policied()
	if err == nil {
		err = s.set.CheckRuling(p.place, made)
	}
	if err != nil {
		return fmt.Sprintf("cannot be carried out: %v", err)
	}
	if p.Shadow {
		return "the policy is in the shadow, so it refuses nothing"
	}
	return ""
}
