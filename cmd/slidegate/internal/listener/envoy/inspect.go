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
	"github.com/slidegate/slidegate/internal/answering"
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

// limitQuery is a request to the store about one limit.
type limitQuery struct {
	rule    *bound
	request storeRequest
	answer  rule.Answer
}

// query calls the store for limits of the target: a peek, or a reset.
func (s *Service) query(ctx context.Context, t *target, op rule.Op, queries []limitQuery) error {
	requests := make([]store.Request, len(queries))
	answers := make([]rule.Answer, len(queries))
	for i := range queries {
		q := &queries[i]
		charge := store.Charge{Limit: q.rule.limit, Key: t.address}
		if op == rule.Peek {
			charge.Cost = q.request.cost
		}
		requests[i] = store.Request{Op: op, Group: t.domain.group, Charges: []store.Charge{charge}, Answers: answers[i : i+1]}
	}
	if len(requests) == 0 {
		return nil
	}
	if err := s.store.Apply(ctx, requests); err != nil {
		return err
	}
	for i := range queries {
		q := &queries[i]
		q.answer = answers[i]
		if q.request.interpretation == alwaysOver {
			q.answer.Allowed, q.answer.RetryAfter = false, rule.Never
		}
		if q.rule.spec.limit.Quota == 0 {
			q.answer.Remaining = 0
		}
	}
	return nil
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
	queries := []limitQuery{{rule: t.rule, request: t.rule.requestFor(req.Cost, false)}}
	if err := s.query(ctx, t, rule.Peek, queries); err != nil {
		return v, err
	}
	limit, a := t.rule.spec.limit, &queries[0].answer
	v.By, v.Shadow, v.Refused, v.Limits = policy.ByLimits, t.rule.shadow || s.opts.Shadow, !a.Allowed, []slidegate.Limit{limit}
	v.Decision = slidegate.Decision{
		Allowed: a.Allowed || v.Shadow, Flags: a.Flags, LimitName: t.rule.title, Quota: limit.Quota, Remaining: a.Remaining,
		ResetAfter: time.Duration(a.ResetAfter) * time.Microsecond,
	}
	v.Decision.At, _ = answering.Unmark(a.At)
	switch {
	case v.Decision.Allowed:
	case a.RetryAfter == rule.Never:
		v.Decision.RetryAfter = slidegate.Never
	default:
		v.Decision.RetryAfter = time.Duration(a.RetryAfter) * time.Microsecond
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
	var queries []limitQuery
	if t.base == nil {
		e.Note = t.noRuleReason()
	} else {
		e.Rule, e.Path, e.QuotaMode, e.Shadow = t.base.title, t.base.path, t.base.quotaMode, t.base.shadow || s.opts.Shadow
	}
	if t.blocked() {
		e.By, e.Refused, e.Shadow, e.Allowed = policy.ByRuling, true, s.opts.Shadow, s.opts.Shadow
		return e, nil
	}
	limited := t.rule != nil
	if limited {
		queries = append(queries, limitQuery{rule: t.rule, request: t.rule.requestFor(req.Cost, false)})
	}
	for _, b := range t.domain.descriptorLimits() {
		queries = append(queries, limitQuery{rule: b, request: b.requestFor(req.Cost, false)})
	}
	if err := s.query(ctx, t, rule.Peek, queries); err != nil {
		return gate.Explanation{}, err
	}
	for i := range queries {
		q := &queries[i]
		explained := gate.ExplainLimit(q.rule.spec.limit, &q.answer)
		switch {
		case i == 0 && limited:
			e.By, e.Refused, e.Source, e.Limits = policy.ByLimits, !explained.Allowed, gate.SourceOf(q.answer.Flags), []gate.ExplainedLimit{explained}
		case q.answer.ResetAfter > 0: // something is counted
			e.DescriptorLimits = append(e.DescriptorLimits, explained)
		}
	}
	e.Allowed = !e.Refused || e.Shadow
	return e, nil
}

// Reset deletes what a descriptor has used of the limit of the matching rule, and of limits that came with it.
func (s *Service) Reset(ctx context.Context, req gate.Request) error {
	t, err := s.target(req.Policy, req.Key)
	if err != nil {
		return err
	}
	var queries []limitQuery
	for _, b := range append([]*bound{t.rule, t.base}, t.domain.descriptorLimits()...) {
		if b == nil || b.limit == nil {
			continue
		}
		same := func(q limitQuery) bool { return q.rule.limit.Prefix() == b.limit.Prefix() } // limits of one shape share the count
		if !slices.ContainsFunc(queries, same) {
			queries = append(queries, limitQuery{rule: b})
		}
	}
	if t.base == nil && len(queries) == 0 {
		return fmt.Errorf("envoy: %w: %s", gate.ErrKey, t.noRuleReason())
	}
	if err := s.query(ctx, t, rule.Reset, queries); err != nil {
		return err
	}
	if slices.ContainsFunc(queries, func(q limitQuery) bool { return isFallbackClosed(q.answer) }) {
		return errClosed
	}
	return nil
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
