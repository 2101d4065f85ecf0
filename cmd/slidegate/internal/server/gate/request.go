package gate

import (
	"context"
	"net/http"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// CheckRequest asks all policies whose Match fits r, with the keys that their templates make of it and with their costs:
// as one request to the store, all or nothing. It is for listeners that see whole requests; config.Policy.HTTP says what
// the fields of a request are.
//
// Policies in the shadow are asked in the same call, but by themselves, so that what they refuse does not keep the others
// from being charged, and an error of theirs is not reported. If any other policy has the client on its deny list, the request
// is refused and the store not asked; a policy that has it on its allow list, or has no limit for it, has no part in the
// decision. Where policies with different failure modes decide together, the strictest mode holds: closed, then optimistic, then
// local, then open. With no policy that fits, everything is allowed, and Verdict.Policy is empty.
//
// In a Redis cluster, policies that decide together need the same key, for one request is decided on one node; otherwise
// the error wraps store.ErrUnsupported.
func (g *Gate) CheckRequest(ctx context.Context, r *http.Request) (v Verdict, err error) {
	s := g.now.Load()
	var room [8]*compiled
	facing := s.facing(room[:0], r)
	began := g.begin()
	v, err = s.checkFacing(ctx, facing, r)
	for _, p := range facing {
		p.took(HTTP, began)
	}
	return v, err
}

// facing appends the policies that a request faces.
func (s *snapshot) facing(to []*compiled, r *http.Request) []*compiled {
	for _, p := range s.order {
		if p.matcher.Match(r) {
			to = append(to, p)
		}
	}
	return to
}

// checkFacing asks the policies that a request faces.
func (s *snapshot) checkFacing(ctx context.Context, facing []*compiled, r *http.Request) (v Verdict, err error) {
	switch len(facing) {
	case 0:
		return Verdict{Decision: slidegate.Decision{Allowed: true}, By: ByUnlimited}, nil
	case 1:
		return s.check(ctx, facing[0], r)
	}
	request := s.set.Begin()
	defer request.End()
	for _, p := range facing {
		request.Add(s.part(p, r))
	}
	request.Decide(ctx, rule.Take, &v)
	return v, s.finishFacing(&v, r)
}

// finishFacing completes the verdict of policies that decide together.
func (s *snapshot) finishFacing(v *Verdict, r *http.Request) error {
	var granted int64
	if p := s.policies[v.Policy]; v.Shadow && p != nil {
		granted = p.costOf(r)
	}
	return s.finish(v, granted)
}

// CheckPolicy is CheckRequest for one policy, whatever its Match: a listener that was told which one to ask uses it. A
// policy that is not there is an ErrPolicy.
func (g *Gate) CheckPolicy(ctx context.Context, name string, r *http.Request) (v Verdict, err error) {
	s := g.now.Load()
	p, err := s.find(name)
	if err != nil {
		return v, err
	}
	began := g.begin()
	v, err = s.check(ctx, p, r)
	p.took(HTTP, began)
	return v, err
}

// check asks one policy.
func (s *snapshot) check(ctx context.Context, p *compiled, r *http.Request) (v Verdict, err error) {
	part := s.part(p, r)
	s.set.Ask(ctx, rule.Take, &part, &v)
	return v, s.finish(&v, part.Cost)
}

// costOf returns what a request costs.
func (p *compiled) costOf(r *http.Request) int64 {
	if p.cost == nil {
		return 1
	}
	return p.cost(r)
}

// part returns a policy's part in a request.
func (s *snapshot) part(p *compiled, r *http.Request) policy.Part {
	addr, _ := s.source.Addr(r)
	part := policy.Part{Policy: p.place, Key: p.key(r), Address: addr, Cost: p.costOf(r)}
	if p.plan != nil {
		part.Plan = p.plan(r)
	}
	return part
}

// finish completes the verdict on a request. A policy in the shadow that could not be asked keeps nobody out, nor does one
// by which a request costs nothing.
func (s *snapshot) finish(v *Verdict, granted int64) error {
	if v.Peek && v.By == ByLimits && !v.Refused {
		v.Decision.Allowed, v.Decision.RetryAfter = true, 0
	}
	if v.Err != nil && v.Shadow {
		*v = Verdict{Policy: v.Policy, Shadow: true, Decision: slidegate.Decision{Allowed: true, Granted: granted}}
	}
	return told(v, granted)
}
