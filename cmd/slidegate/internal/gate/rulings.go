package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/ruled"
	"github.com/slidegate/slidegate/rulings"
)

// SetRulings puts rulings into force, in place of the previous ones. Rulings stay in force when policies are reloaded. A ruling about
// an unknown policy, or with limits that the policy no longer supports, is left out until a reload makes it applicable; the error is
// about the latter.
func (g *Gate) SetRulings(all []rulings.Ruling) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	g.ruled.Store(&all)
	return ruled.Apply(g.current.Load().set, all)
}

// rulings returns the rulings in force.
func (g *Gate) rulings() []rulings.Ruling {
	if all := g.ruled.Load(); all != nil {
		return *all
	}
	return nil
}

// ResolveRuling checks a ruling about a key of a policy, and fills in what the policy defines: the name of the default
// policy, the key as it is stored, and the names of limits. For the kinds Clear and Reset, it fills in only the policy and
// the key. The error is a rulings.FieldError.
func (g *Gate) ResolveRuling(r *rulings.Ruling) error {
	s := g.current.Load()
	p, err := s.find(r.Policy)
	if err != nil {
		return &rulings.FieldError{Field: "policy", Err: err}
	}
	r.Policy = p.Name
	if r.Kind == rulings.Limits {
		ruling, err := ruled.Parse(r)
		if err != nil {
			return &rulings.FieldError{Field: "limits", Err: err}
		}
		for i := range ruling.Limits {
			p.nameLimit(&ruling.Limits[i])
			r.Limits[i] = ruling.Limits[i].String()
		}
	}
	return ruled.Resolve(s.set, p.index, r)
}

// nameLimit gives an unnamed limit the name of the policy's limit with the same window, if there is one, so that both
// share their counts.
func (p *livePolicy) nameLimit(limit *slidegate.Limit) {
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

// RulingNote returns why a ruling has no effect, or "" if it has one.
func (g *Gate) RulingNote(r *rulings.Ruling) string {
	s := g.current.Load()
	known, err := s.checkRuling(r)
	switch {
	case !known:
		return "no policy has this name"
	case err != nil:
		return fmt.Sprintf("cannot be applied: %v", err)
	case s.policies[r.Policy].Shadow:
		return "the policy is in shadow mode and refuses nothing"
	}
	return ""
}

// CheckRuling reports whether the policy of a stored ruling exists, and returns the error if the policy cannot apply it.
func (g *Gate) CheckRuling(r *rulings.Ruling) (known bool, err error) {
	return g.current.Load().checkRuling(r)
}

func (s *snapshot) checkRuling(r *rulings.Ruling) (known bool, err error) {
	p := s.policies[r.Policy]
	if p == nil {
		return false, nil
	}
	return true, ruled.Check(s.set, p.index, r)
}

// Reach describes what is known of the keys that a ruling is about.
type Reach struct {
	// Seen are those of its keys that the store counts something for now, or that this instance has refused. It is null if that is not known.
	Seen []string `json:"seen"`
	// Notes say what an operator should know about it.
	Notes []string `json:"notes,omitempty"`
}

// maxSeen bounds the keys of a prefix that RulingReach returns.
const maxSeen = 10

// RulingReach returns which of the keys that a ruling is about have used something of their limits, by the store,
// or have been refused, by find. Before is the ruling that it has replaced, or nil. RulingReach charges nothing.
func (g *Gate) RulingReach(ctx context.Context, r, before *rulings.Ruling, find func(matches func(key string) bool) []string) (reach Reach) {
	s := g.current.Load()
	p := s.policies[r.Policy]
	if p == nil {
		return reach
	}
	read, err := s.set.ReadKey(p.index, r.Key)
	if err != nil {
		return reach // the policy has changed in the meantime
	}
	reach.Seen = []string{}
	var known bool
	var replaced engine.Ruling
	if before != nil {
		replaced, _ = ruled.Parse(before) // it was in force
	}
	if known = !read.Prefix.IsValid(); known { // stores cannot list the keys of a prefix
		used, err := s.set.Used(ctx, p.index, read.Key, replaced.Limits...)
		if known = err == nil; used {
			reach.Seen = append(reach.Seen, read.Key)
		}
	}
	refused := find(read.Matches)
	for _, key := range refused[:min(len(refused), maxSeen)] {
		if !slices.Contains(reach.Seen, key) {
			reach.Seen = append(reach.Seen, key)
		}
	}
	if !known && len(reach.Seen) == 0 {
		reach.Seen = nil
	}
	reach.Notes = append(p.reachNotes(read), g.outranking(s, p, r)...)
	return reach
}

// outranking returns a note for each ruling that decides about some keys of another one.
func (g *Gate) outranking(s *snapshot, p *livePolicy, r *rulings.Ruling) (notes []string) {
	texts := s.set.Outranking(p.index, r.Key)
	for _, text := range texts[:min(len(texts), maxSeen)] {
		if other := ruled.Find(g.rulings(), p.Name, text); other != nil {
			notes = append(notes, fmt.Sprintf("%q has its own ruling, which takes precedence: %s", text, ruled.Effect(other)))
		}
	}
	if more := len(texts) - maxSeen; more > 0 {
		notes = append(notes, fmt.Sprintf("%d more rulings take precedence about some of the keys that it matches", more))
	}
	return notes
}

// reachNotes returns what an operator should know about the keys of a ruling.
func (p *livePolicy) reachNotes(read keyform.Match) (notes []string) {
	if strings.Contains(read.Key, "*") {
		notes = append(notes, "the * stands for itself; patterns are for the policy file")
	}
	if p.Key.OnlySent(read.String()) {
		notes = append(notes, "only requests for which an application sends this key have it: those that a proxy checks have the client's address as their key")
	}
	return notes
}
