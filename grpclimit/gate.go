package grpclimit

import (
	"context"
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// gate decides calls by policies. Servers and clients have it in common.
type gate struct {
	limiter    *slidegate.Limiter
	policies   []*policy
	shadows    bool // some of them are only tried out
	failClosed bool
	fallback   *slidegate.Limiter
	timeout    time.Duration
	group      func(context.Context, string) string
	onDecision func(context.Context, Event)
}

// fill checks the rest of the options. Policies without a key get the one given.
func (g *gate) fill(policies []Policy, key Key) (err error) {
	if g.timeout < 0 {
		return fmt.Errorf("grpclimit: timeout: must not be negative, it is %v", g.timeout)
	}
	g.policies, err = newPolicies(g.limiter, policies, key)
	for _, p := range g.policies {
		g.shadows = g.shadows || p.Shadow
	}
	return err
}

// charges tells whether a policy charges calls of this method at this stage.
func (g *gate) charges(method string, at stage) bool {
	for _, p := range g.policies {
		if p.at(at) && p.matches(method) {
			return true
		}
	}
	return false
}

// admit decides a question for good: it returns nil or the refusal.
func (g *gate) admit(ctx context.Context, q *question) *refusal {
	if g.shadows {
		g.tryShadows(ctx, q)
	}
	var room [4]part
	parts := g.parts(ctx, q, room[:0])
	if len(parts) == 0 {
		return nil
	}
	event := g.decide(ctx, q, parts, false)
	event.Refused = !event.Decision.Allowed
	g.tell(ctx, &event)
	if event.Refused {
		return refuse(ctx, parts, &event.Decision)
	}
	return nil
}

// tryShadows decides by the policies that are only tried out, each by itself.
func (g *gate) tryShadows(ctx context.Context, q *question) {
	for _, p := range g.policies {
		if !p.Shadow {
			continue
		}
		if one, ok := p.ask(ctx, q); ok {
			event := g.decide(ctx, q, []part{one}, false)
			event.Shadow = true
			g.tell(ctx, &event)
		}
	}
}

func (g *gate) tell(ctx context.Context, event *Event) {
	if g.onDecision != nil {
		g.onDecision(ctx, *event)
	}
}

// parts appends the parts of all policies that have one in the question. They are asked once a call, however long it
// waits.
func (g *gate) parts(ctx context.Context, q *question, to []part) []part {
	for _, p := range g.policies {
		if p.Shadow {
			continue
		}
		if one, ok := p.ask(ctx, q); ok {
			to = append(to, one)
		}
	}
	return to
}

// decide asks the limiter, and goes on as the options say if that fails.
func (g *gate) decide(ctx context.Context, q *question, parts []part, peek bool) Event {
	d, err := g.first(ctx, q, parts, peek)
	if err == nil {
		return Event{Method: q.method, Policy: decidedBy(parts, &d), Decision: d}
	}
	ended := ctx.Err() != nil // then it is not the store that failed
	if g.fallback != nil && !ended {
		if d, again := g.claim(ctx, g.fallback, q, parts, peek); again == nil {
			d.Flags |= rule.FallbackLocal
			return Event{Method: q.method, Policy: decidedBy(parts, &d), Decision: d, Err: err}
		}
	}
	d = slidegate.Decision{Allowed: true, Flags: rule.FallbackOpen}
	if g.failClosed || ended {
		d = slidegate.Decision{Flags: rule.FallbackClosed}
	}
	return Event{Method: q.method, Policy: parts[0].policy.Name, Decision: d, Err: err}
}

// first asks the limiter. The commonest question, of one policy with limits of its own, takes the shortest way.
func (g *gate) first(ctx context.Context, q *question, parts []part, peek bool) (slidegate.Decision, error) {
	if g.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.timeout)
		defer cancel()
	}
	if len(parts) > 1 || parts[0].planned || peek || g.group != nil {
		return g.claim(ctx, g.limiter, q, parts, peek)
	}
	return parts[0].policy.limiter.AllowN(ctx, parts[0].key, parts[0].cost)
}

// claim asks a limiter for all parts, all or none.
func (g *gate) claim(ctx context.Context, from *slidegate.Limiter, q *question, parts []part, peek bool) (slidegate.Decision, error) {
	n := 0
	for i := range parts {
		n += len(parts[i].limits)
	}
	claims := make([]slidegate.Claim, 0, n)
	for i := range parts {
		for _, limit := range parts[i].limits {
			claims = append(claims, slidegate.Claim{Limit: limit, Key: parts[i].key, Cost: parts[i].cost})
		}
	}
	request := from.For(claims...)
	if g.group != nil {
		request = request.InGroup(g.group(ctx, q.method))
	}
	if peek {
		return request.Peek(ctx)
	}
	return request.Allow(ctx)
}

// decidedBy returns the name of the policy whose limit decided.
func decidedBy(parts []part, d *slidegate.Decision) string {
	left := int(d.Index)
	for i := range parts {
		if left < len(parts[i].limits) {
			return parts[i].policy.Name
		}
		left -= len(parts[i].limits)
	}
	panic(fmt.Sprintf("grpclimit: limit %d decided, and there are not as many", d.Index))
}
