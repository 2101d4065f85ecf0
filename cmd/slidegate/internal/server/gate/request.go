package gate

import (
	"context"
	"net/http"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// CheckRequest applies all policies whose Match matches r, with the keys that their templates make of it and with their
// costs, as one request to the store, all or nothing. It is for listeners that see whole requests; config.Policy.HTTP
// documents the fields of a request.
//
// Policies in shadow mode are part of the same call but decided separately, so their denials do not keep the others
// from being charged, and their errors are not reported. If any other policy has the client on its deny list, the
// request is denied without a call to the store; a policy that has it on its allow list, or has no limit for it, takes
// no part in the decision. If policies with different failure modes decide together, the strictest mode applies:
// closed, then optimistic, then local, then open. If no policy matches, the request is admitted, and Verdict.Policy is
// empty.
//
// In a Redis cluster, policies that decide together need the same key, since one request is decided on one node;
// otherwise the error wraps store.ErrUnsupported.
func (g *Gate) CheckRequest(ctx context.Context, r *http.Request) (v Verdict, err error) {
	s := g.current.Load()
	var buf [8]*compiled
	matching := g.matching(s, buf[:0], HTTP, r)
	began := g.begin()
	v, err = s.checkMatching(ctx, matching, r)
	for _, p := range matching {
		p.recordLatency(HTTP, began)
	}
	return v, err
}

// matching appends the policies that apply to a request, and counts a request that no policy matches.
func (g *Gate) matching(s *snapshot, to []*compiled, from Listener, r *http.Request) []*compiled {
	exempt := false
	for _, p := range s.order {
		switch p.applies(r) {
		case isExempt:
			exempt = true
		case isLimited:
			to = append(to, p)
		}
	}
	if len(to) == 0 && !exempt {
		g.CountUnmatched(listenerNames[from], 1)
	}
	return to
}

// application is what a policy does with a request.
type application uint8

const (
	noMatch application = iota
	isExempt
	isLimited
)

func (p *compiled) applies(r *http.Request) application {
	switch {
	case !p.matcher.Match(r):
		return noMatch
	case p.skip != nil && p.skip(r):
		return isExempt
	}
	return isLimited
}

// CountUnmatched counts requests that no policy, or no rule of Envoy's, matches: "http", "grpc" or "proxy" is where they came
// from. They are admitted, and a mistake in a pattern looks like that.
func (g *Gate) CountUnmatched(listener string, n int64) {
	g.metrics.unmatched.Add(context.Background(), n, g.metrics.unmatchedBy[listener])
}

// checkMatching applies the policies that match a request.
func (s *snapshot) checkMatching(ctx context.Context, matching []*compiled, r *http.Request) (v Verdict, err error) {
	switch len(matching) {
	case 0:
		return Verdict{Decision: slidegate.Decision{Allowed: true}, By: ByUnlimited}, nil
	case 1:
		return s.check(ctx, matching[0], r)
	}
	request := s.set.Begin()
	defer request.End()
	for _, p := range matching {
		request.Add(s.part(p, r))
	}
	request.Decide(ctx, rule.Take, &v)
	return v, s.finishMatching(&v, r)
}

// finishMatching completes the verdict of policies that decide together.
func (s *snapshot) finishMatching(v *Verdict, r *http.Request) error {
	var granted int64
	if p := s.policies[v.Policy]; v.Shadow && p != nil {
		granted = p.costOf(r)
	}
	return s.finish(v, granted)
}

// CheckPolicy is CheckRequest for one named policy, regardless of its Match, except that requests stay exempt. The error wraps
// ErrPolicy if the policy is unknown.
func (g *Gate) CheckPolicy(ctx context.Context, name string, r *http.Request) (v Verdict, err error) {
	s := g.current.Load()
	p, err := s.find(name)
	if err != nil {
		return v, err
	}
	if p.skip != nil && p.skip(r) {
		return s.checkMatching(ctx, nil, r)
	}
	began := g.begin()
	v, err = s.check(ctx, p, r)
	p.recordLatency(HTTP, began)
	return v, err
}

// check applies one policy.
func (s *snapshot) check(ctx context.Context, p *compiled, r *http.Request) (v Verdict, err error) {
	part := s.part(p, r)
	s.set.Decide(ctx, rule.Take, &part, &v)
	return v, s.finish(&v, part.Cost)
}

// costOf returns the cost of a request.
func (p *compiled) costOf(r *http.Request) int64 {
	if p.cost == nil {
		return 1
	}
	return p.cost(r)
}

// part returns a policy's part in a request.
func (s *snapshot) part(p *compiled, r *http.Request) policy.Part {
	addr, _ := s.source.Addr(r)
	part := policy.Part{Policy: p.index, Address: addr, Cost: p.costOf(r)}
	part.Key, _ = p.key.Of(r) // keys of a file do not fail
	if p.plan != nil {
		part.Plan, part.Err = p.plan(r)
	}
	return part
}

// finish completes the verdict on a request. A policy in shadow mode that failed denies no request.
func (s *snapshot) finish(v *Verdict, granted int64) error {
	if v.Err != nil && v.Shadow {
		*v = Verdict{Policy: v.Policy, Shadow: true, Decision: slidegate.Decision{Allowed: true, Granted: granted}}
	}
	return forClient(v, granted)
}
