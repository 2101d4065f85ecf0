package gate

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Allow asks for the ask's cost, all or nothing. A policy that is not there is an ErrPolicy, a cost that cannot be a
// slidegate.ErrCost; other errors are the store's.
func (g *Gate) Allow(ctx context.Context, ask Ask) (v Verdict, err error) {
	p, err := g.now.Load().find(ask.Policy)
	if err != nil {
		return v, err
	}
	err = g.allow(ctx, p, &ask, &v)
	return v, err
}

// allow is Allow for a policy that was found.
func (g *Gate) allow(ctx context.Context, p *policy, ask *Ask, v *Verdict) (err error) {
	if err := checkCost(ask.Cost); err != nil {
		return err
	}
	r, by := p.route(ask.Key, ask.Address)
	if by != ByLimits {
		p.listed(v, by, ask, ask.Cost)
		return nil
	}
	if p.candidate == nil || r != p.plain || ask.Cost == 0 {
		v.Decision, err = r.limiter.AllowN(ctx, ask.Key, ask.Cost)
	} else {
		v.Decision, err = g.together(ctx, p, r, rule.Take, ask)
	}
	p.decided(v, r, ask, ask.Cost, err)
	return err
}

// AllowUpTo asks for as much of the cost as the limits admit now, at least one unit; Decision.Granted is how much.
func (g *Gate) AllowUpTo(ctx context.Context, ask Ask) (v Verdict, err error) {
	p, r, by, err := g.route(&ask)
	if err != nil {
		return v, err
	}
	if by != ByLimits {
		p.listed(&v, by, &ask, ask.Cost)
		return v, nil
	}
	if p.candidate == nil || r != p.plain || ask.Cost == 0 {
		v.Decision, err = r.limiter.AllowUpTo(ctx, ask.Key, ask.Cost)
	} else {
		v.Decision, err = g.together(ctx, p, r, rule.TakeUpTo, &ask)
	}
	p.decided(&v, r, &ask, ask.Cost, err)
	return v, err
}

// Peek tells what Allow would answer. It charges nothing and is not counted as a decision.
func (g *Gate) Peek(ctx context.Context, ask Ask) (v Verdict, err error) {
	p, r, by, err := g.route(&ask)
	if err != nil {
		return v, err
	}
	if by != ByLimits {
		p.list(&v, by, 0)
		return v, nil
	}
	v.Decision, err = r.limiter.PeekN(ctx, ask.Key, ask.Cost)
	p.finish(&v, r, 0)
	return v, err
}

// Reserve takes an estimate now, to be settled when the true cost is known. Where nothing was charged (an allow list, no
// limit, a policy that only watches and would have refused) the reservation has no charges, and settling it does nothing;
// if the ask was refused, it is the zero value. A candidate is charged the estimate, and not told of the true cost.
func (g *Gate) Reserve(ctx context.Context, ask Ask) (res slidegate.Reservation, v Verdict, err error) {
	p, r, by, err := g.route(&ask)
	if err != nil {
		return res, v, err
	}
	if by != ByLimits {
		p.listed(&v, by, &ask, ask.Cost)
	} else {
		res, v.Decision, err = r.limiter.Reserve(ctx, ask.Key, ask.Cost)
		p.decided(&v, r, &ask, ask.Cost, err)
		if err != nil {
			return res, v, err
		}
		if p.candidate != nil && r == p.plain && ask.Cost > 0 {
			g.candidateAlone(ctx, p, &ask, !v.Refused)
		}
	}
	if v.Decision.Allowed && res.ID == "" {
		res = slidegate.Reservation{ID: rand.Text(), Charges: []slidegate.ReservedCharge{}}
	}
	return res, v, nil
}

// candidateAlone asks the candidate where it cannot be asked together with the limits.
func (g *Gate) candidateAlone(ctx context.Context, p *policy, ask *Ask, live bool) {
	j := g.newJob()
	defer g.end(j)
	j.begin(rule.Take)
	j.add(p.candidate, ask.Key, ask.Cost)
	j.apply(ctx, p.store)
	p.countCandidate(ask.Key, &j.requests[0], live)
}

// Settle replaces the estimate of a reservation by the true cost: one number for all its charges, or one for each; see
// slidegate.Limiter.Settle. The policy must be the one that the reservation was made under, and still have the limits that
// were charged, by name and shape.
func (g *Gate) Settle(ctx context.Context, policy string, r slidegate.Reservation, actual ...int64) error {
	p, err := g.now.Load().find(policy)
	if err != nil {
		return err
	}
	if len(r.Charges) == 0 && r.ID != "" {
		for _, cost := range actual {
			if err := checkCost(cost); err != nil {
				return err
			}
		}
		return nil
	}
	if err := p.checkReservation(&r); err != nil {
		return err
	}
	return p.plain.limiter.Settle(ctx, r, actual...)
}

// checkReservation refuses charges to limits that the policy does not have: a reservation comes from a client, which could
// otherwise have the store keep something for limits of its own making.
func (p *policy) checkReservation(r *slidegate.Reservation) error {
	known := map[string]bool{}
	p.eachBound(func(b *store.Limit) { known[b.Prefix()] = true })
	for i := range r.Charges {
		b, err := slidegate.Bind(p.Name, r.Charges[i].Limit)
		if err != nil {
			return err
		}
		if !known[b.Prefix()] {
			return fmt.Errorf("gate: %w: the policy %s has no limit like %s (any more)", slidegate.ErrReservation, p.Name, r.Charges[i].Limit)
		}
	}
	return nil
}

// Cancel gives all of a reservation back. The policy must be the one that it was made under.
func (g *Gate) Cancel(ctx context.Context, policy string, r slidegate.Reservation) error {
	return g.Settle(ctx, policy, r, 0)
}

// Refund gives the ask's cost back to its key, the oldest live units first, also to the candidate. Whoever is on a list,
// or has no limit, was charged nothing and gets nothing back.
func (g *Gate) Refund(ctx context.Context, ask Ask) (v Verdict, err error) {
	p, r, by, err := g.route(&ask)
	if err != nil {
		return v, err
	}
	if by != ByLimits {
		p.list(&v, by, 0)
		return v, nil
	}
	if p.candidate == nil || r != p.plain {
		v.Decision, err = r.limiter.Refund(ctx, ask.Key, ask.Cost)
	} else {
		v.Decision, err = g.together(ctx, p, r, rule.GiveBack, &ask)
	}
	p.finish(&v, r, v.Decision.Granted)
	return v, err
}

// Reset forgets what the ask's key has used of the limits that it faces now, and of the candidate, whatever lists say.
func (g *Gate) Reset(ctx context.Context, ask Ask) error {
	p, err := g.now.Load().find(ask.Policy)
	if err != nil {
		return err
	}
	r := p.ofKey(ask.Key)
	if r.limiter == nil {
		r = p.plain
	}
	if p.candidate == nil {
		return r.limiter.Reset(ctx, ask.Key)
	}
	ask.Cost = 0
	_, err = g.together(ctx, p, r, rule.Reset, &ask)
	return err
}

// route finds what decides about an ask.
func (g *Gate) route(ask *Ask) (p *policy, r *rules, by By, err error) {
	if p, err = g.now.Load().find(ask.Policy); err != nil {
		return nil, nil, 0, err
	}
	if err := checkCost(ask.Cost); err != nil {
		return nil, nil, 0, err
	}
	r, by = p.route(ask.Key, ask.Address)
	return p, r, by, nil
}

// decided completes and counts a verdict of the limits.
func (p *policy) decided(v *Verdict, r *rules, ask *Ask, granted int64, err error) {
	if err != nil {
		v.Policy = p.Name
		p.tally.add(ask.Key, failed)
		return
	}
	p.finish(v, r, granted)
	if ask.Cost == 0 {
		return
	}
	switch {
	case !v.Refused:
		p.tally.add(ask.Key, admitted)
	case p.Shadow:
		p.tally.add(ask.Key, shadowRefused)
	default:
		p.tally.add(ask.Key, refused)
	}
}

// finish completes a verdict of the limits. Granted is what a client is told that the policy only watches.
func (p *policy) finish(v *Verdict, r *rules, granted int64) {
	v.Policy, v.Limits, v.Shadow = p.Name, r.limits, p.Shadow
	v.Refused = !v.Decision.Allowed
	if v.Refused && p.Shadow {
		v.Decision.Allowed, v.Decision.RetryAfter, v.Decision.Granted = true, 0, granted
	}
}

// listed makes and counts the verdict on an ask that the limits have no part in.
func (p *policy) listed(v *Verdict, by By, ask *Ask, granted int64) {
	p.list(v, by, granted)
	if ask.Cost != 0 {
		p.tally.add(ask.Key, p.listedCount(by))
	}
}

func (p *policy) listedCount(by By) int {
	switch {
	case by == ByAllowList:
		return allowListed
	case by == ByUnlimited:
		return unlimited
	case p.Shadow:
		return shadowDenyListed
	}
	return denyListed
}

// list makes the verdict on an ask that the limits have no part in.
func (p *policy) list(v *Verdict, by By, granted int64) {
	*v = Verdict{Policy: p.Name, By: by, Shadow: p.Shadow, Refused: by == ByDenyList}
	if v.Refused && !p.Shadow {
		v.Decision.RetryAfter = slidegate.Never
		return
	}
	v.Decision.Allowed, v.Decision.Granted = true, granted
}
