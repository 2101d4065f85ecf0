package gate

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// part is one policy's part in a batch or in a request.
type part struct {
	place     int // of the ask in a batch
	policy    *policy
	rules     *rules
	by        By
	key       string
	request   int // the request of the job that asks it, or -1
	candidate int // and the one that asks its candidate, or -1
	from      int // where its answers are among those of that request
}

// CheckRequest asks all policies whose Match fits r, with the keys that their templates make of it and with their costs:
// as one request to the store, all or nothing. It is for doors that see whole requests.
//
// Policies that only watch are asked in the same call, but by themselves, so that what they refuse does not keep the
// others from being charged, and an error of theirs is nobody's. If any other policy has the client on its deny list, the
// request is refused and the store not asked; a policy that has it on its allow list, or has no limit for it, has no part in
// the decision. Where policies with different failure modes decide together, the strictest mode holds: closed, then local,
// then open. With no policy that fits, everything is allowed, and Verdict.Policy is empty.
//
// In a Redis cluster, policies that decide together need the same key, for one request is decided on one node; otherwise
// the error wraps store.ErrUnsupported.
//
// The fields of a request: address is what the Source finds; host and method are as the client wrote them, the host in
// lower case; path is cleaned as http.ServeMux does; a header that is there more than once is its first line. A user is
// known only if the door has verified one and says so by WithUser: what a client writes into an Authorization header is
// nobody's name until somebody has checked the password, and a client could otherwise choose a new key at every request,
// or use up the quota of another. Likewise key is what WithKey says. Where they are missing, all requests share one key.
func (g *Gate) CheckRequest(ctx context.Context, r *http.Request) (v Verdict, err error) {
	s := g.now.Load()
	r = plainHost(r)
	j := g.newJob()
	defer g.end(j)
	for _, p := range s.order {
		if p.matches(r) {
			j.parts = append(j.parts, part{policy: p, request: -1, candidate: -1})
		}
	}
	if len(j.parts) == 0 {
		return Verdict{Decision: slidegate.Decision{Allowed: true}, By: ByUnlimited}, nil
	}
	addr, _ := s.source.Addr(r)
	about := aboutRequest{ctx: ctx, request: r, source: s.source}
	for i := range j.parts {
		j.parts[i].key = about.key(j.parts[i].policy)
	}
	if len(j.parts) == 1 {
		p := j.parts[0].policy
		err = g.allow(ctx, p, &Ask{Policy: p.Name, Key: j.parts[0].key, Address: addr, Cost: p.fixed}, &v)
		if err != nil && p.Shadow {
			return p.unwatched(), nil
		}
		return v, err
	}
	return g.askAll(ctx, j, addr)
}

// askAll asks several policies at once.
func (g *Gate) askAll(ctx context.Context, j *job, addr netip.Addr) (v Verdict, err error) {
	for i := range j.parts {
		it := &j.parts[i]
		it.rules, it.by = it.policy.route(it.key, addr)
		if it.by == ByDenyList && !it.policy.Shadow {
			p := it.policy
			p.listed(&v, ByDenyList, &Ask{Key: it.key, Cost: p.fixed}, 0)
			return v, nil
		}
	}
	mode, most := j.askParts(), 0
	if len(j.requests) > 0 {
		if most = g.most[mode]; j.ends[0] > most {
			return v, fmt.Errorf("gate: %w: the policies that match have %d limits together, the store decides at most %d atomically",
				store.ErrUnsupported, j.ends[0], most)
		}
		j.apply(ctx, g.stores[mode])
	}
	return j.judge()
}

// askParts makes the requests: first the one of the policies that decide, then one for each that only watches, then the
// candidates. It returns the failure mode of those that decide.
func (j *job) askParts() (mode int) {
	decides := -1
	for i := range j.parts {
		it := &j.parts[i]
		if it.by != ByLimits || it.policy.Shadow {
			continue
		}
		if decides < 0 {
			decides = j.begin(rule.Take)
		}
		it.request, it.from = decides, len(j.charges)
		j.add(it.rules.bound, it.key, it.policy.fixed)
		mode = max(mode, it.policy.mode)
	}
	for i := range j.parts {
		it := &j.parts[i]
		if it.by != ByLimits {
			continue
		}
		if it.policy.Shadow {
			it.request = j.begin(rule.Take)
			j.add(it.rules.bound, it.key, it.policy.fixed)
			if decides < 0 {
				mode = max(mode, it.policy.mode)
			}
		}
		if it.policy.candidate != nil && it.rules == it.policy.plain && it.policy.fixed > 0 {
			it.candidate = j.begin(rule.Take)
			j.add(it.policy.candidate, it.key, it.policy.fixed)
		}
	}
	return mode
}

// judge makes one verdict of what all said, and counts for each policy.
func (j *job) judge() (v Verdict, err error) {
	rank := 0 // of the verdict so far: 1 for a list, 2 for a policy that watches, 3 for one that watches and would refuse
	for i := range j.parts {
		it := &j.parts[i]
		var own Verdict
		p, ask := it.policy, Ask{Key: it.key, Cost: it.policy.fixed}
		switch {
		case it.by != ByLimits:
			p.listed(&own, it.by, &ask, ask.Cost)
			if own.Refused && rank < 3 {
				v, rank = own, 3
			} else if rank < 1 {
				v, rank = own, 1
			}
		case p.Shadow:
			r := &j.requests[it.request]
			if r.Err == nil {
				own.Decision = slidegate.Combine(r)
			}
			p.decided(&own, it.rules, &ask, ask.Cost, r.Err)
			it.tellCandidate(j, r.Err == nil && !own.Refused)
			switch {
			case r.Err != nil && rank < 1:
				v, rank = p.unwatched(), 1
			case r.Err == nil && own.Refused && rank < 3:
				v, rank = own, 3
			case r.Err == nil && rank < 2:
				v, rank = own, 2
			}
		}
	}
	if len(j.requests) > 0 && j.decides() >= 0 {
		return j.judgeLive(j.decides())
	}
	return v, nil
}

// decides returns the first of the policies whose verdict holds, or -1 if all that are asked only watch.
func (j *job) decides() int {
	for i := range j.parts {
		if j.parts[i].by == ByLimits && !j.parts[i].policy.Shadow {
			return i
		}
	}
	return -1
}

// judgeLive makes the verdict of the policies that decide. One that would have admitted what another refused was not
// charged, and is not counted.
func (j *job) judgeLive(first int) (v Verdict, err error) {
	live := &j.requests[0]
	v.Policy = j.parts[first].policy.Name
	if live.Err == nil {
		v.Decision = slidegate.Combine(live)
		v.Refused = !v.Decision.Allowed
	}
	for i := range j.parts {
		it := &j.parts[i]
		if it.by != ByLimits || it.policy.Shadow {
			continue
		}
		if live.Err != nil {
			it.policy.tally.add(it.key, failed)
			continue
		}
		v.Limits = append(v.Limits, it.rules.limits...)
		to := it.from + len(it.rules.bound)
		if index := int(v.Decision.Index); it.from <= index && index < to {
			v.Policy = it.policy.Name
		}
		own := true
		for _, a := range live.Answers[it.from:to] {
			own = own && a.Allowed
		}
		switch {
		case it.policy.fixed == 0:
		case !own:
			it.policy.tally.add(it.key, refused)
		case !v.Refused:
			it.policy.tally.add(it.key, admitted)
		}
		it.tellCandidate(j, own)
	}
	return v, live.Err
}

// unwatched is the verdict of a policy that only watches, and could not: it keeps nobody out.
func (p *policy) unwatched() Verdict {
	return Verdict{Policy: p.Name, Shadow: true, Decision: slidegate.Decision{Allowed: true, Granted: p.fixed}}
}

func (it *part) tellCandidate(j *job, live bool) {
	if it.candidate >= 0 {
		it.policy.countCandidate(it.key, &j.requests[it.candidate], live)
	}
}
