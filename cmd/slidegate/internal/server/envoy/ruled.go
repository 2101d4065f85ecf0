package envoy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
)

// rulingRule is what metrics and operators are told in place of a rule where a ruling refuses a descriptor that no rule fits.
const rulingRule = "ruling"

// ruled is a ruling about a descriptor, ready to be obeyed.
type ruled struct {
	rulings.Ruling
	limit slidegate.Limit // of the kind Limits
}

// ruledTable has the rulings by domain, and by the text of the descriptor.
type ruledTable map[*domain]map[string]*ruled

// Rule puts rulings in force in place of those before: those whose policy is rulings.EnvoyPrefix and a domain. One about a domain that
// has no rules is obeyed when it has some. One that cannot be read, or gives more than one limit, is left out.
func (s *Service) Rule(table *rulings.Table) {
	s.reload.Lock()
	defer s.reload.Unlock()
	s.table = table
	s.ruleLocked()
}

// ruleLocked makes the rulings about domains in service ready.
func (s *Service) ruleLocked() {
	if s.table.Empty() {
		s.ruled.Store(nil)
		return
	}
	made := ruledTable{}
	for _, d := range *s.domains.Load() {
		for _, r := range s.table.Of(d.policy, time.Now()) {
			one := &ruled{Ruling: r}
			if r.Kind == rulings.Limits {
				var err error
				if one.limit, err = limitOfRuling(&r); err != nil {
					s.opts.Logger.Error("envoy: a ruling cannot be carried out; end it or change it", "domain", d.name, "error", err)
					continue
				}
			}
			if made[d] == nil {
				made[d] = map[string]*ruled{}
			}
			made[d][r.Key] = one
		}
	}
	if len(made) == 0 {
		s.ruled.Store(nil)
		return
	}
	s.ruled.Store(&made)
}

// rulingsOf returns the rulings about descriptors of a domain; nil if there are none, as nearly always.
func (s *Service) rulingsOf(d *domain) map[string]*ruled {
	table := s.ruled.Load()
	if table == nil {
		return nil
	}
	return (*table)[d]
}

// find returns the ruling about a descriptor that is in force; nil if there is none. It writes the text of the descriptor to the buffer.
func find(all map[string]*ruled, entries []*entry, buffer *[]byte) *ruled {
	if len(all) == 0 {
		return nil
	}
	*buffer = appendText((*buffer)[:0], entries)
	if r := all[string(*buffer)]; r != nil && r.InForce(time.Now()) {
		return r
	}
	return nil
}

// obey does what a ruling says about a descriptor. Given back is what was taken, also to one that is blocked.
func (s *Service) obey(ctx context.Context, d *domain, a *asked, r *ruled) {
	switch {
	case r.Kind == rulings.Block && !a.refund:
		a.blocked, a.by, a.rule, a.refused = r, firstOf(a.rule, a.refused), nil, nil
	case r.Kind == rulings.Unlimited:
		d.tallyRuled.add(ctx, verdictOK)
		a.rule, a.refused, a.unlimited = nil, nil, true
	case r.Kind == rulings.Limits:
		a.rule, a.refused = s.underRuling(d, firstOf(a.rule, a.refused), r), nil
	}
}

func firstOf(a, b *bound) *bound {
	if a != nil {
		return a
	}
	return b
}

// ruledBy is a ruling's limit in the place of a rule.
type ruledBy struct {
	rule  *bound // nil if no rule fits
	limit slidegate.Limit
}

// underRuling returns the rule with the limit that a ruling gives it, or as it is if it cannot have that.
func (s *Service) underRuling(d *domain, base *bound, r *ruled) *bound {
	key := ruledBy{base, r.limit}
	d.mu.RLock()
	made := d.underRulings[key]
	d.mu.RUnlock()
	if made != nil {
		return made
	}
	made, err := s.bindRuling(d, base, r.limit)
	if err != nil {
		s.opts.Logger.Error("envoy: a ruling cannot be carried out; the rule stays in force", "domain", d.name, "error", err)
		made = base
	}
	if made == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.underRulings) >= maxOverrides {
		clear(d.underRulings)
	}
	d.underRulings[key] = made
	return made
}

func (s *Service) bindRuling(d *domain, base *bound, limit slidegate.Limit) (*bound, error) {
	title, tally, from := rulingRule, d.tallyRuled, &spec{}
	if base != nil {
		title, tally, from = base.title, base.tally, base.spec
	}
	changed, err := from.under(limit, d.charging)
	if err != nil {
		return nil, err
	}
	made, err := s.binder.rule(d.name, title, changed, tally)
	if err == nil && base != nil {
		made.path = base.path
	}
	return made, err
}

// limitOfRuling returns the limit of a ruling, which is one: a descriptor has one count.
func limitOfRuling(r *rulings.Ruling) (limit slidegate.Limit, err error) {
	if len(r.Limits) != 1 {
		return limit, fmt.Errorf("a descriptor of Envoy has one limit, not %d; give one", len(r.Limits))
	}
	return slidegate.ParseLimit(r.Limits[0])
}

// under returns the rule with another limit. A limit that only says how much in which time counts as the rule does, so that what was
// counted is not forgotten where the time is the same.
func (s *spec) under(limit slidegate.Limit, charging Charging) (*spec, error) {
	plain := slidegate.Limit{Name: limit.Name, Quota: limit.Quota, Window: limit.Window, Calendar: limit.Calendar, Zone: limit.Zone}
	if limit == plain {
		limit = slidegate.Limit{Algorithm: slidegate.FixedWindow, CountDenied: charging == ChargeEach}
		if !s.unlimited && s.limit != (slidegate.Limit{}) {
			limit = s.limit
			limit.Burst = 0
		}
		limit.Quota, limit.Window, limit.Calendar, limit.Zone = plain.Quota, plain.Window, plain.Calendar, plain.Zone
	}
	limit.Name = ""
	made := *s
	made.unlimited, made.limit = false, limit
	switch {
	case limit.Algorithm == slidegate.InFlight:
		return nil, errors.New("in-flight is not for Envoy, which does not say when a request has ended")
	case limit.Quota > math.MaxUint32:
		return nil, fmt.Errorf("at most %d requests can be told to Envoy", uint32(math.MaxUint32))
	case limit.Calendar != 0:
		for i, period := range calendarUnits {
			if period == limit.Calendar {
				made.unit, made.multiplier = units[i].unit, 1
			}
		}
	case limit.Window <= 0 || limit.Window%time.Second != 0 || limit.Window/time.Second > math.MaxUint32:
		return nil, errors.New("the window must be of whole seconds, which Envoy can be told")
	default:
		made.unit, made.multiplier = unitOf(limit.Window)
	}
	return &made, limit.Check()
}

// ResolveRuling checks a ruling about a descriptor and writes its key as requests have it. An error is about the field.
func (s *Service) ResolveRuling(r *rulings.Ruling) (field string, err error) {
	t, err := s.target(r.Policy, r.Key)
	if errors.Is(err, gate.ErrPolicy) {
		return "policy", err
	}
	if err != nil {
		return "key", err
	}
	r.Policy, r.Key = t.domain.policy, string(appendText(nil, t.entries))
	if r.Kind != rulings.Limits {
		return "", nil
	}
	limit, err := limitOfRuling(r)
	if err == nil {
		_, err = s.bindRuling(t.domain, t.base, limit)
	}
	return "limits", err
}

// RulingNote says what keeps a ruling from being carried out, or what it is not about; empty if nothing does.
func (s *Service) RulingNote(r *rulings.Ruling) string {
	t, err := s.target(r.Policy, r.Key)
	switch {
	case err != nil:
		return "there are no rules for this domain"
	case s.opts.Shadow:
		return "all rules for Envoy are in the shadow, so nothing is refused"
	case r.Kind == rulings.Limits && t.base != nil && t.base.shadow:
		return "the rule is in shadow mode, so it refuses nothing"
	case r.Kind == rulings.Limits:
		limit, err := limitOfRuling(r)
		if err == nil {
			_, err = s.bindRuling(t.domain, t.base, limit)
		}
		if err != nil {
			return fmt.Sprintf("cannot be carried out: %v", err)
		}
	}
	return ""
}
