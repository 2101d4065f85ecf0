package envoy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/rulings"
	"github.com/slidegate/slidegate/store"
)

// target is a descriptor that an operator inspects.
type target struct {
	domain  *domain
	entries []*entry
	path    []*node
	base    *bound  // the matching rule; nil if none
	rule    *bound  // base, or base under a ruling; nil if there is no limit
	ruling  *ruling // nil if there is none
	address string
}

// target resolves a policy, which is gate.EnvoyPrefix and a domain, and the text of a descriptor.
func (s *Service) target(policy, text string) (*target, error) {
	domains := *s.domains.Load()
	d := domains[strings.TrimPrefix(policy, gate.EnvoyPrefix)]
	if d == nil {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(domains)) {
			names = append(names, gate.EnvoyPrefix+name)
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("envoy: %w: %s: there are no rules for Envoy; add some with --envoy, or with envoy in the policy file", gate.ErrPolicy, errtext.Quote(policy))
		}
		return nil, fmt.Errorf("envoy: %w: %w", gate.ErrPolicy, errtext.Unknown(policy, "a domain with rules for Envoy", names))
	}
	entries, err := parseText(text)
	if err != nil {
		return nil, fmt.Errorf("envoy: %w: %w", gate.ErrKey, err)
	}
	writeAddresses(entries)
	t := &target{domain: d, entries: entries}
	t.base, t.path = d.root.match(entries, nil)
	t.address = string(appendAddress(nil, entries, t.path))
	t.rule, t.ruling = t.base, d.rulingAbout(entries, new([]byte))
	if t.ruling != nil && t.ruling.Kind != rulings.Block {
		t.rule = t.ruling.rule
	}
	if t.rule != nil && t.rule.unlimited {
		t.rule = nil
	}
	return t, nil
}

// blocked reports whether a ruling blocks the descriptor.
func (t *target) blocked() bool { return t.ruling != nil && t.ruling.Kind == rulings.Block }

// noRuleReason describes why no rule matches.
func (t *target) noRuleReason() string {
	at := t.domain.name
	for _, n := range t.path {
		at += "." + n.pair.String()
	}
	if len(t.path) == len(t.entries) {
		return fmt.Sprintf("no rule matches: %s has no rate_limit", at)
	}
	return fmt.Sprintf("no rule matches: %s has no descriptor for entry %d, %s, and those after it", at, len(t.path)+1, errtext.Quote(t.entries[len(t.path)].GetKey()))
}

// ask calls the store about limits of rules for the target: a peek at a request of this cost, or a reset.
func (s *Service) ask(ctx context.Context, t *target, op rule.Op, cost int64, rules ...*bound) ([]rule.Answer, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	requests, answers := make([]store.Request, len(rules)), make([]rule.Answer, len(rules))
	for i, r := range rules {
		charge := store.Charge{Limit: r.limit, Key: t.address}
		if op == rule.Peek {
			charge.Cost = r.requestFor(cost, false).cost
		}
		requests[i] = store.Request{Op: op, Group: t.domain.group, Charges: []store.Charge{charge}, Answers: answers[i : i+1]}
	}
	if err := s.store.Apply(ctx, requests); err != nil {
		return nil, err
	}
	for i, r := range rules {
		if r.requestFor(cost, false).interpretation == alwaysOver {
			answers[i].Allowed, answers[i].RetryAfter = false, rule.Never
		}
		if r.spec.limit.Quota == 0 {
			answers[i].Remaining = 0
		}
	}
	return answers, nil
}

// Peek returns what a request with only this descriptor would get, and charges nothing. The policy of req is
// gate.EnvoyPrefix and a domain, and its key is the text of the descriptor.
func (s *Service) Peek(ctx context.Context, req gate.Request) (v policy.Decision, err error) {
	t, err := s.target(req.Policy, req.Key)
	if err != nil {
		return v, err
	}
	v = policy.Decision{Policy: t.domain.policy, By: policy.ByUnlimited}
	v.Decision.Allowed, v.Decision.Remaining = true, math.MaxUint32
	if t.blocked() {
		v.By, v.Refused, v.Decision = policy.ByRuling, true, slidegate.Decision{Allowed: s.opts.Shadow, RetryAfter: slidegate.Never}
		if !t.ruling.Until.IsZero() {
			v.Decision.RetryAfter = max(0, time.Until(t.ruling.Until))
		}
		return v, nil
	}
	if t.rule == nil {
		return v, nil
	}
	answers, err := s.ask(ctx, t, rule.Peek, req.Cost, t.rule)
	if err != nil {
		return v, err
	}
	v.By, v.Shadow, v.Limits = policy.ByLimits, t.rule.shadow || s.opts.Shadow, []slidegate.Limit{t.rule.spec.limit}
	v.Decision = adapter.Combine([]store.Charge{{Limit: t.rule.limit}}, answers)
	v.Decision.LimitName, v.Decision.Quota, v.Refused = t.rule.title, t.rule.spec.limit.Quota, !v.Decision.Allowed
	if v.Shadow {
		v.Decision.Allowed, v.Decision.RetryAfter = true, 0
	}
	return v, nil
}

// Explain returns which rule matches a descriptor, and the answer of its limit to a request with only this descriptor.
// It charges nothing.
func (s *Service) Explain(ctx context.Context, req gate.Request) (gate.Explanation, error) {
	t, err := s.target(req.Policy, req.Key)
	if err != nil {
		return gate.Explanation{}, err
	}
	e := gate.Explanation{Policy: t.domain.policy, Key: string(appendText(nil, t.entries)), By: policy.ByUnlimited, Allowed: true, Shadow: s.opts.Shadow}
	if t.ruling != nil {
		e.Ruling = &t.ruling.Ruling
	}
	if t.base == nil {
		e.Note = t.noRuleReason()
	} else {
		e.Rule, e.Path, e.QuotaMode, e.Shadow = t.base.title, t.base.path, t.base.quotaMode, t.base.shadow || s.opts.Shadow
	}
	if t.blocked() {
		e.By, e.Refused, e.Shadow, e.Allowed = policy.ByRuling, true, s.opts.Shadow, s.opts.Shadow
		return e, nil
	}
	rules := t.domain.descriptorLimits()
	if t.rule != nil {
		rules = append([]*bound{t.rule}, rules...)
	}
	answers, err := s.ask(ctx, t, rule.Peek, req.Cost, rules...)
	if err != nil {
		return gate.Explanation{}, err
	}
	for i := range answers {
		explained := gate.ExplainLimit(rules[i].spec.limit, &answers[i])
		switch {
		case rules[i] == t.rule:
			e.By, e.Refused, e.Source, e.Limits = policy.ByLimits, !explained.Allowed, gate.SourceOf(answers[i].Flags), []gate.ExplainedLimit{explained}
		case answers[i].ResetAfter > 0: // something is counted
			e.DescriptorLimits = append(e.DescriptorLimits, explained)
		}
	}
	e.Allowed = !e.Refused || e.Shadow
	return e, nil
}

// State returns what the store keeps of a descriptor under the limit of the matching rule, and what of a log of rulings is about it.
func (s *Service) State(ctx context.Context, req gate.Request, log []rulings.Ruling) (gate.KeyState, error) {
	t, err := s.target(req.Policy, req.Key)
	if err != nil {
		return gate.KeyState{}, err
	}
	k := gate.KeyState{
		Policy: t.domain.policy, Key: string(appendText(nil, t.entries)), By: policy.ByUnlimited, Limits: []gate.LimitState{}, History: []rulings.Ruling{},
	}
	for i := range log {
		if log[i].Policy == k.Policy && log[i].Key == k.Key {
			k.History = append(k.History, log[i])
		}
	}
	if t.ruling != nil {
		k.Ruling = &t.ruling.Ruling
	}
	if t.base != nil {
		k.Rule = t.base.title
	}
	switch {
	case t.blocked():
		k.By = policy.ByRuling
		return k, nil
	case t.rule == nil:
		return k, nil
	}
	k.By = policy.ByLimits
	asked := t.rule.requestFor(req.Cost, false)
	of, err := gate.StateOf(ctx, s.store, t.rule.spec.limit, t.rule.limit, t.domain.group, t.address, asked.cost)
	if asked.interpretation == alwaysOver {
		of.RetryAfter = nil
	}
	if t.rule.spec.limit.Quota == 0 {
		of.Quota, of.Capacity, of.Remaining = 0, 0, 0
	}
	k.Limits = append(k.Limits, of)
	return k, err
}

// Reset deletes what a descriptor has used of the limit of the matching rule, and of limits that came with it.
func (s *Service) Reset(ctx context.Context, req gate.Request) error {
	t, err := s.target(req.Policy, req.Key)
	if err != nil {
		return err
	}
	var rules []*bound
	for _, b := range append([]*bound{t.rule, t.base}, t.domain.descriptorLimits()...) {
		same := func(other *bound) bool { return other.limit.Prefix() == b.limit.Prefix() } // limits of one shape share the count
		if b != nil && b.limit != nil && !slices.ContainsFunc(rules, same) {
			rules = append(rules, b)
		}
	}
	if t.base == nil && len(rules) == 0 {
		return fmt.Errorf("envoy: %w: %s", gate.ErrKey, t.noRuleReason())
	}
	answers, err := s.ask(ctx, t, rule.Reset, 0, rules...)
	if err == nil && slices.ContainsFunc(answers, isFallbackClosed) {
		err = errClosed
	}
	return err
}

// LimitsOf returns the limit of a descriptor; none if no rule matches.
func (s *Service) LimitsOf(policy, text string) []slidegate.Limit {
	t, err := s.target(policy, text)
	if err != nil || t.rule == nil {
		return nil
	}
	return []slidegate.Limit{t.rule.spec.limit}
}

// maxDescriptorLimits bounds the limits from descriptors that are shown to operators.
const maxDescriptorLimits = 256

// descriptorLimits returns limits that came with descriptors of the domain, the largest first.
func (d *domain) descriptorLimits() []*bound {
	d.mu.RLock()
	all := slices.Collect(maps.Values(d.overrides))
	d.mu.RUnlock()
	slices.SortFunc(all, func(a, b *bound) int {
		return cmp.Or(cmp.Compare(b.spec.limit.Quota, a.spec.limit.Quota), cmp.Compare(a.spec.limit.Window, b.spec.limit.Window))
	})
	return all[:min(len(all), maxDescriptorLimits)]
}
