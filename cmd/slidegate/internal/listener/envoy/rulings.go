package envoy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/ruled"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/rulings"
)

// rulingRule is used in place of the name of a rule, in metrics and for operators, if a ruling decides about a
// descriptor and no rule does.
const rulingRule = "ruling"

// preparedRuling is a ruling about a descriptor, with its limit parsed.
type preparedRuling struct {
	rulings.Ruling
	limit slidegate.Limit // for the kind Limits
}

// preparedRulings holds the rulings by domain, and by the text of the descriptor.
type preparedRulings map[*domain]map[string]*preparedRuling

// SetRulings puts rulings into force in place of the previous ones: those whose policy is gate.EnvoyPrefix and a domain. A
// ruling about a domain without rules is applied once it has some. A ruling that is invalid, or has more than one
// limit, is left out.
func (s *Service) SetRulings(all []rulings.Ruling) {
	s.reload.Lock()
	defer s.reload.Unlock()
	s.rulings = all
	s.prepareRulingsLocked()
}

// prepareRulingsLocked prepares the rulings about domains in service.
func (s *Service) prepareRulingsLocked() {
	table := preparedRulings{}
	for _, d := range *s.domains.Load() {
		for _, r := range s.rulings {
			if r.Policy != d.policy {
				continue
			}
			one := &preparedRuling{Ruling: r}
			if r.Kind == rulings.Limits {
				var err error
				if one.limit, err = limitOfRuling(&r); err != nil {
					s.opts.Logger.Error("envoy: ruling cannot be applied; clear it or change it", "domain", d.name, "error", err)
					continue
				}
			}
			if table[d] == nil {
				table[d] = map[string]*preparedRuling{}
			}
			table[d][r.Key] = one
		}
	}
	if len(table) == 0 {
		s.prepared.Store(nil)
		return
	}
	s.prepared.Store(&table)
}

// rulingsOf returns the rulings about descriptors of a domain; nil if there are none, which is the usual case.
func (s *Service) rulingsOf(d *domain) map[string]*preparedRuling {
	table := s.prepared.Load()
	if table == nil {
		return nil
	}
	return (*table)[d]
}

// findRuling returns the ruling in force about a descriptor; nil if there is none. It writes the text of the descriptor to
// the buffer.
func findRuling(all map[string]*preparedRuling, entries []*entry, buffer *[]byte) *preparedRuling {
	if len(all) == 0 {
		return nil
	}
	*buffer = appendText((*buffer)[:0], entries)
	if r := all[string(*buffer)]; r != nil && ruled.InForce(&r.Ruling) {
		return r
	}
	return nil
}

// applyRuling applies a ruling to a descriptor. Refunds are made even if the descriptor is blocked.
func (s *Service) applyRuling(ctx context.Context, d *domain, a *item, r *preparedRuling) {
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

// rulingBinding is the limit of a ruling in place of a rule.
type rulingBinding struct {
	rule  *bound // nil if no rule matches
	limit slidegate.Limit
}

// underRuling returns the rule with the limit of a ruling, or unchanged if it cannot have that limit.
func (s *Service) underRuling(d *domain, base *bound, r *preparedRuling) *bound {
	key := rulingBinding{base, r.limit}
	d.mu.RLock()
	rule := d.underRulings[key]
	d.mu.RUnlock()
	if rule != nil {
		return rule
	}
	rule, err := s.bindRuling(d, base, r.limit)
	if err != nil {
		s.opts.Logger.Error("envoy: ruling cannot be applied; the rule stays in force", "domain", d.name, "error", err)
		rule = base
	}
	if rule == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.underRulings) >= maxOverrides {
		clear(d.underRulings)
	}
	d.underRulings[key] = rule
	return rule
}

func (s *Service) bindRuling(d *domain, base *bound, limit slidegate.Limit) (*bound, error) {
	title, tally, from := rulingRule, d.tallyRuled, &spec{}
	if base != nil {
		title, tally, from = base.title, base.tally, base.spec
	}
	changed, err := from.withLimit(limit, d.charging)
	if err != nil {
		return nil, err
	}
	rule, err := s.binder.rule(d.name, title, changed, tally)
	if err == nil && base != nil {
		rule.path = base.path
	}
	return rule, err
}

// limitOfRuling returns the limit of a ruling. There must be exactly one, since a descriptor has one count.
func limitOfRuling(r *rulings.Ruling) (limit slidegate.Limit, err error) {
	if len(r.Limits) != 1 {
		return limit, fmt.Errorf("an Envoy descriptor has one limit, not %d; give one", len(r.Limits))
	}
	return slidegate.ParseLimit(r.Limits[0])
}

// withLimit returns the rule with another limit. A limit that only sets a quota and a window counts as the rule does, so
// that the counts are kept if the window is the same.
func (s *spec) withLimit(limit slidegate.Limit, charging Charging) (*spec, error) {
	plain := slidegate.Limit{Name: limit.Name, Quota: limit.Quota, Window: limit.Window, Calendar: limit.Calendar, Zone: limit.Zone}
	if limit == plain {
		limit = slidegate.Limit{Algorithm: slidegate.FixedWindow, CountRefused: charging == ChargeEach}
		if !s.unlimited && s.limit != (slidegate.Limit{}) {
			limit = s.limit
			limit.Burst = 0
		}
		limit.Quota, limit.Window, limit.Calendar, limit.Zone = plain.Quota, plain.Window, plain.Calendar, plain.Zone
	}
	limit.Name = ""
	changed := *s
	changed.unlimited, changed.limit = false, limit
	switch {
	case limit.Algorithm == slidegate.InFlight:
		return nil, errors.New("in-flight is not supported for Envoy, which does not report when a request has ended")
	case limit.Quota > math.MaxUint32:
		return nil, fmt.Errorf("must be at most %d requests, the maximum in Envoy's protocol", uint32(math.MaxUint32))
	case limit.Calendar != 0:
		for i, period := range calendarUnits {
			if period == limit.Calendar {
				changed.unit, changed.multiplier = units[i].unit, 1
			}
		}
	case limit.Window <= 0 || limit.Window%time.Second != 0 || limit.Window/time.Second > math.MaxUint32:
		return nil, errors.New("the window must be a whole number of seconds, as in Envoy's protocol")
	default:
		changed.unit, changed.multiplier = unitOf(limit.Window)
	}
	return &changed, adapter.Check(limit)
}

// ResolveRuling checks a ruling about a descriptor and normalizes its key. An error is about the returned field.
func (s *Service) ResolveRuling(r *rulings.Ruling) (field string, err error) {
	t, err := s.target(r.Policy, r.Key)
	if errors.Is(err, gate.ErrPolicy) {
		return "policy", err
	}
	if err != nil {
		return "key", err
	}
	if err := checkValues(t.entries); err != nil && r.Kind != rulings.Clear {
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

// The keys of entries whose values Envoy makes from the client's address.
const (
	remoteAddress = "remote_address"
	maskedAddress = "masked_remote_address"
)

// writeAddresses writes the addresses among the values of entries as Envoy does: in lower case, in the shortest form, and IPv4 mapped
// into IPv6 as IPv4.
func writeAddresses(entries []*entry) {
	for _, e := range entries {
		switch e.GetKey() {
		case remoteAddress:
			if addr, err := netip.ParseAddr(e.GetValue()); err == nil {
				e.Value = addr.Unmap().String()
			}
		case maskedAddress:
			if prefix, err := netip.ParsePrefix(e.GetValue()); err == nil {
				e.Value = prefix.Masked().String()
			}
		}
	}
}

// checkValues returns an error for a descriptor that Envoy does not send.
func checkValues(entries []*entry) error {
	for i, e := range entries {
		value := e.GetValue()
		_, notAddress := netip.ParseAddr(value)
		prefix, notPrefix := netip.ParsePrefix(value)
		switch {
		case strings.Contains(value, "*"):
			return fmt.Errorf("the value of entry %d contains a *, but a ruling is about one descriptor as Envoy sends it; for patterns, use the rules of the file", i+1)
		case strings.TrimSpace(value) != value:
			return fmt.Errorf("the value of entry %d begins or ends with a space; remove it", i+1)
		case e.GetKey() == remoteAddress && notPrefix == nil:
			return fmt.Errorf("the value of entry %d is a prefix, but Envoy sends single addresses as remote_address; give the descriptor of masked_remote_address, or block each address", i+1)
		case e.GetKey() == remoteAddress && notAddress != nil:
			return fmt.Errorf("the value of entry %d must be an address, such as 203.0.113.7, without a port", i+1)
		case e.GetKey() == maskedAddress && notPrefix != nil:
			return fmt.Errorf("the value of entry %d must be a prefix, such as 203.0.113.0/24, as long as Envoy's mask", i+1)
		case e.GetKey() == maskedAddress && prefix.Addr().Is4In6():
			return fmt.Errorf("the value of entry %d is IPv4 mapped into IPv6; write it as IPv4", i+1)
		}
	}
	return nil
}

// RulingReach returns the descriptor that a ruling is about, and whether it has used something of the limit of its rule. A
// block holds for every descriptor, also for one that no rule matches.
func (s *Service) RulingReach(ctx context.Context, r *rulings.Ruling) (reach gate.Reach) {
	reach.Matches = []string{r.Key}
	t, err := s.target(r.Policy, r.Key)
	if err != nil {
		return reach
	}
	if t.base == nil {
		reach.Notes = append(reach.Notes, t.noRuleReason()+"; the ruling holds if Envoy sends exactly this descriptor")
	}
	if t.base == nil || t.base.unlimited {
		reach.Seen = []string{}
		return reach
	}
	queries := []limitQuery{{rule: t.base, request: t.base.requestFor(0, false)}}
	if err := s.query(ctx, t, rule.Peek, queries); err != nil {
		return reach
	}
	reach.Seen = []string{}
	if queries[0].answer.ResetAfter > 0 {
		reach.Seen = append(reach.Seen, r.Key)
	}
	return reach
}

// RulingNote returns why a ruling has no effect, or "" if it has one.
func (s *Service) RulingNote(r *rulings.Ruling) string {
	t, err := s.target(r.Policy, r.Key)
	switch {
	case err != nil:
		return "no rules for this domain"
	case s.opts.Shadow:
		return "all rules for Envoy are in shadow mode and refuse nothing"
	case r.Kind == rulings.Limits && t.base != nil && t.base.shadow:
		return "the rule is in shadow mode and refuses nothing"
	case r.Kind == rulings.Limits:
		limit, err := limitOfRuling(r)
		if err == nil {
			_, err = s.bindRuling(t.domain, t.base, limit)
		}
		if err != nil {
			return fmt.Sprintf("cannot be applied: %v", err)
		}
	}
	return ""
}
