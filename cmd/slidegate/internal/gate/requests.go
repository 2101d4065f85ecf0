package gate

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// CheckRequest applies all policies whose Match matches r, with the keys that their templates make of it and with their
// costs, as one request to the store, all or nothing. It is for listeners that see whole requests; config.Policy.HTTP
// documents the fields of a request.
//
// Policies in shadow mode are part of the same call but decided separately, so their refusals do not keep the others
// from being charged, and their errors are not reported. If any other policy has the client on its block list, the
// request is refused without a call to the store; a policy that has it on its allow list, or has no limit for it, takes
// no part in the decision. If policies with different failure modes decide together, the strictest mode applies:
// closed, then local, then open. If no policy matches, the request is admitted, and Decision.Policy is empty.
//
// In a Redis cluster, policies that decide together need the same key, since one request is decided on one node;
// otherwise the error wraps store.ErrUnsupported.
func (g *Gate) CheckRequest(ctx context.Context, r *http.Request) (d policy.Decision, err error) {
	s := g.current.Load()
	var buf [8]*livePolicy
	matching := g.matching(s, buf[:0], HTTP, r)
	began := g.begin()
	err = s.check(ctx, matching, r, &d)
	g.recordLatency(HTTP, began, d.Waited)
	return d, err
}

// CheckPolicy is CheckRequest for one named policy, regardless of its Match, except that requests stay exempt. The error wraps
// ErrPolicy if the policy is unknown.
func (g *Gate) CheckPolicy(ctx context.Context, name string, r *http.Request) (d policy.Decision, err error) {
	s := g.current.Load()
	p, err := s.find(name)
	if err != nil {
		return d, err
	}
	one := []*livePolicy{p}
	if p.skip != nil && p.skip(r) {
		one = nil
	}
	began := g.begin()
	err = s.check(ctx, one, r, &d)
	g.recordLatency(HTTP, began, d.Waited)
	return d, err
}

// Hold is the slots, and the units of limits with hold, that an admitted request holds while it runs. The zero value holds nothing.
type Hold struct {
	request *engine.Transaction
	by      *snapshot     // the policies of the request
	out     *atomic.Int64 // the gate's
}

// count counts that it began or, with -1, ended.
func (h *Hold) count(n int64) {
	h.out.Add(n)
	h.request.HeldBy(func(policy int) { h.by.order[policy].held.Add(n) })
}

// Release releases the slots after the request has run, and charges the units; call it once. If the store is reached over a network, Release
// does not wait for it. Failed is called if the release failed; the slots then expire.
func (h *Hold) Release(ctx context.Context, failed func(error)) {
	if h.request != nil {
		h.count(-1)
		h.request.Finish(ctx, nil, failed)
		h.request = nil
	}
}

// HoldRequest is CheckRequest for a listener in which requests run: it also takes the slots of in-flight limits, holds the units of
// limits with hold, and renews both until they are released. Report is called on another goroutine with errors of renewals.
func (g *Gate) HoldRequest(ctx context.Context, r *http.Request, report func(error)) (d policy.Decision, held Hold, err error) {
	s := g.current.Load()
	var buf [8]*livePolicy
	matching := g.matching(s, buf[:0], Proxy, r)
	began := g.begin()
	defer func() { g.recordLatency(Proxy, began, d.Waited) }()
	if !slices.ContainsFunc(matching, func(p *livePolicy) bool { return p.holds }) {
		err = s.check(ctx, matching, r, &d)
		return d, held, err
	}
	request := s.begin(matching, r)
	request.Slots = engine.SlotsHeld
	request.Decide(ctx, rule.Take, &d)
	admitted := !d.Refused && d.Err == nil && request.Held()
	if err = s.finish(&d, r); err != nil || !admitted {
		request.End() // releases what was taken
		return d, held, err
	}
	request.RenewSlots(ctx, func(lost policy.Decision) { report(lost.Err) })
	held = Hold{request, s, &g.held}
	held.count(1)
	return d, held, nil
}

// Held returns how many requests hold slots or units now.
func (g *Gate) Held() int64 { return g.held.Load() }

// Drain waits until all releases begun by Hold.Release are done, or ctx ends.
func (g *Gate) Drain(ctx context.Context) error { return g.current.Load().set.Drain(ctx) }

// matching appends the policies that apply to a request, and counts a request that no policy matches.
func (g *Gate) matching(s *snapshot, to []*livePolicy, from Listener, r *http.Request) []*livePolicy {
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
		g.CountUnmatched(from, 1)
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

func (p *livePolicy) applies(r *http.Request) application {
	switch {
	case !p.matcher.Match(r):
		return noMatch
	case p.skip != nil && p.skip(r):
		return isExempt
	}
	return isLimited
}

// check applies the policies that match a request.
func (s *snapshot) check(ctx context.Context, matching []*livePolicy, r *http.Request, d *policy.Decision) error {
	switch len(matching) {
	case 0:
		*d = policy.Decision{Decision: slidegate.Decision{Allowed: true}, By: policy.ByUnlimited}
		return nil
	case 1:
		part := s.part(matching[0], r)
		s.set.Decide(ctx, rule.Take, &part, d)
	default:
		request := s.begin(matching, r)
		defer request.End()
		request.Decide(ctx, rule.Take, d)
	}
	return s.finish(d, r)
}

// begin begins a request that several policies decide together.
func (s *snapshot) begin(matching []*livePolicy, r *http.Request) *engine.Transaction {
	request := s.set.Begin()
	for _, p := range matching {
		request.Add(s.part(p, r))
	}
	return request
}

// part returns a policy's part in a request.
func (s *snapshot) part(p *livePolicy, r *http.Request) engine.Part {
	addr, _ := s.source.Addr(r)
	part := engine.Part{Policy: p.index, Address: addr, Cost: p.costOf(r), Method: r.Method, Path: r.URL.Path}
	part.Key, _ = p.key.Of(r) // keys of a file do not fail
	if p.plan != nil {
		part.Plan, part.Err = p.plan(r)
	}
	return part
}

// costOf returns the cost of a request.
func (p *livePolicy) costOf(r *http.Request) int64 {
	if p.cost == nil {
		return 1
	}
	return p.cost(r)
}

// finish completes the decision on a request. A policy in shadow mode that failed refuses no request.
func (s *snapshot) finish(d *policy.Decision, r *http.Request) error {
	var granted int64
	if p := s.policies[d.Policy]; d.Shadow && p != nil {
		granted = p.costOf(r)
	}
	if d.Err != nil && d.Shadow {
		*d = policy.Decision{Policy: d.Policy, Shadow: true, Decision: slidegate.Decision{Allowed: true, Granted: granted}}
	}
	return forClient(d, granted)
}

// AmbiguousHeader returns a header that determines a key, a plan or a cost of some policy and that servers read in different ways in
// this request; "" if there is none. Of several lines each server uses another one, and applications that follow CGI treat X_Api_Key
// as X-Api-Key. A client could otherwise be counted by one value and served by another.
func (g *Gate) AmbiguousHeader(r *http.Request) string {
	names := g.current.Load().headers
	for _, name := range names {
		if len(r.Header[name]) > 1 {
			return name
		}
	}
	if len(names) == 0 {
		return ""
	}
	var buf [64]byte
	for written := range r.Header {
		if plain, odd := PlainName(buf[:0], written); odd {
			if name := find(names, string(plain)); name != "" {
				return name
			}
		}
	}
	return ""
}

// HasHeader reports whether a header, by its plain name, determines a key, a plan or a cost of some policy.
func (g *Gate) HasHeader(plain string) bool { return find(g.current.Load().headers, plain) != "" }

// find returns the header with this plain name, or "".
func find(names []string, plain string) string {
	for _, name := range names {
		if strings.EqualFold(name, plain) {
			return name
		}
	}
	return ""
}

// PlainName appends the name of a header in lower case, with a hyphen for anything that is neither a letter nor a digit, as applications
// normalize names. It reports whether there was anything but letters, digits and hyphens.
func PlainName(to []byte, name string) (plain []byte, odd bool) {
	for i := range len(name) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-':
		default:
			c, odd = '-', true
		}
		to = append(to, c)
	}
	return to, odd
}
