package gate

import (
	"context"
	"net/http"
)

// CheckPolicy is CheckRequest for one policy, whatever its Match: a door that was told which one to ask uses it. A policy
// that is not there is an ErrPolicy.
func (g *Gate) CheckPolicy(ctx context.Context, policy string, r *http.Request) (v Verdict, err error) {
	s := g.now.Load()
	r = plainHost(r)
	p, err := s.find(policy)
	if err != nil {
		return v, err
	}
	addr, _ := s.source.Addr(r)
	about := aboutRequest{ctx: ctx, request: r, source: s.source}
	err = g.allow(ctx, p, &Ask{Policy: p.Name, Key: about.key(p), Address: addr, Cost: p.fixed}, &v)
	if err != nil && p.Shadow {
		return p.unwatched(), nil
	}
	return v, err
}
