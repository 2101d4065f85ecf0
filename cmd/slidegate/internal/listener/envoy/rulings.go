package envoy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/internal/ruled"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/rulings"
)

// ruling is a ruling about a descriptor.
type ruling struct {
	rulings.Ruling
	// For the kind Limits: the matching rule with the limit of the ruling, and the same in place of a limit that comes with the
	// descriptor.
	rule, sent *bound
}

// SetRulings puts rulings into force in place of the previous ones: those whose policy is gate.EnvoyPrefix and a domain. A
// ruling about a domain without rules is applied once it has some. A ruling that is invalid, or has more than one
// limit, is left out.
func (s *Service) SetRulings(all []rulings.Ruling) {
	s.reload.Lock()
	defer s.reload.Unlock()
	s.rulings = all
	for _, d := range *s.domains.Load() {
		s.applyRulings(d)
	}
}

// applyRulings puts the rulings about descriptors of a domain into force.
func (s *Service) applyRulings(d *domain) {
	made := map[string]*ruling{}
	for i := range s.rulings {
		if s.rulings[i].Policy != d.policy {
			continue
		}
		one, err := d.ruling(&s.rulings[i])
		if err != nil {
			s.opts.Logger.Error("envoy: ruling cannot be applied; clear it or change it", "domain", d.name, "error", err)
			continue
		}
		made[one.Key] = one
	}
	d.rulings.Store(&made)
}

// ruling makes a ruling ready to use. Those with limits have exactly one, since a descriptor has one count.
func (d *domain) ruling(given *rulings.Ruling) (*ruling, error) {
	r := &ruling{Ruling: *given}
	if r.Kind != rulings.Limits {
		return r, nil
	}
	if len(r.Limits) != 1 {
		return nil, fmt.Errorf("an Envoy descriptor has one limit, not %d; give one", len(r.Limits))
	}
	limit, err := slidegate.ParseLimit(r.Limits[0])
	if err != nil {
		return nil, err
	}
	entries, err := parseText(r.Key)
	if err != nil {
		return nil, err
	}
	base, _ := d.root.match(entries, nil)
	if r.rule, err = d.withLimit(cmp.Or(base, d.ruled), limit); err == nil {
		r.sent, err = d.withLimit(d.sent, limit)
	}
	return r, err
}

// rulingAbout returns the ruling in force about a descriptor; nil if there is none. It writes the text of the descriptor to
// the buffer.
func (d *domain) rulingAbout(entries []*entry, buffer *[]byte) *ruling {
	all := *d.rulings.Load()
	if len(all) == 0 {
		return nil
	}
	*buffer = appendText((*buffer)[:0], entries)
	if r := all[string(*buffer)]; r != nil && ruled.InForce(&r.Ruling) {
		return r
	}
	return nil
}

// obey applies a ruling to a descriptor. Refunds are made even if the descriptor is blocked.
func (a *item) obey(w *work, r *ruling) {
	switch {
	case r.Kind == rulings.Block && !a.refund:
		a.rule, a.kind, a.retryAfter, a.reset = cmp.Or(a.rule, w.domain.ruled), banned, rule.Never, 0
		if !r.Until.IsZero() {
			a.retryAfter = max(0, rule.Micros(time.Until(r.Until).Microseconds()))
			a.reset = a.retryAfter
		}
	case r.Kind == rulings.Unlimited:
		w.domain.ruled.tally.add(w, outcomeOK)
		a.kind = unlimited
	case r.Kind == rulings.Limits:
		a.rule, a.kind = r.rule, counted
		if a.sent {
			a.rule = r.sent
		}
	}
}

// withLimit returns a rule with another limit. A limit that only sets a quota and a window counts as the rule does, so
// that the counts are kept if the window is the same.
func (d *domain) withLimit(base *bound, limit slidegate.Limit) (*bound, error) {
	plain := slidegate.Limit{Name: limit.Name, Quota: limit.Quota, Window: limit.Window, Calendar: limit.Calendar, Zone: limit.Zone}
	if limit == plain {
		limit = slidegate.Limit{Algorithm: slidegate.FixedWindow, CountRefused: d.charging == ChargeEach}
		if !base.unlimited && base.spec.limit != (slidegate.Limit{}) {
			limit = base.spec.limit
			limit.Burst = 0
		}
		limit.Quota, limit.Window, limit.Calendar, limit.Zone = plain.Quota, plain.Window, plain.Calendar, plain.Zone
	}
	limit.Name = ""
	changed := *base
	changed.unlimited, changed.spec.limit = false, limit
	switch {
	case limit.Algorithm == slidegate.InFlight:
		return nil, errors.New("in-flight is not supported for Envoy, which does not report when a request has ended")
	case limit.Quota > math.MaxUint32:
		return nil, fmt.Errorf("must be at most %d requests, the maximum in Envoy's protocol", uint32(math.MaxUint32))
	case limit.Calendar != 0:
		changed.unit, changed.multiplier = unitWith(func(u timeUnit) bool { return u.period == limit.Calendar }).unit, 1
	case limit.Window <= 0 || limit.Window%time.Second != 0 || limit.Window/time.Second > math.MaxUint32:
		return nil, errors.New("the window must be a whole number of seconds, as in Envoy's protocol")
	default:
		changed.unit, changed.multiplier = unitOf(limit.Window)
	}
	return d.bind(&changed)
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
	_, err = t.domain.ruling(r)
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
	answers, err := s.ask(ctx, t, rule.Peek, 0, t.base)
	if err != nil {
		return reach
	}
	reach.Seen = []string{}
	if answers[0].ResetAfter > 0 {
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
	}
	if _, err := t.domain.ruling(r); err != nil {
		return fmt.Sprintf("cannot be applied: %v", err)
	}
	return ""
}
