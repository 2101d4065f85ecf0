package gate

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// Allow asks for the ask's cost, all or nothing. A policy that is not there is an ErrPolicy, a cost that cannot be a
// slidegate.ErrCost; other errors are the store's.
func (g *Gate) Allow(ctx context.Context, ask Ask) (v Verdict, err error) {
	err = g.ask(ctx, rule.Take, &ask, ask.Cost, &v)
	return v, err
}

// AllowUpTo asks for as much of the cost as the limits admit now, at least one unit; Decision.Granted is how much.
func (g *Gate) AllowUpTo(ctx context.Context, ask Ask) (v Verdict, err error) {
	err = g.ask(ctx, rule.TakeUpTo, &ask, ask.Cost, &v)
	return v, err
}

// Peek tells what Allow would answer. It charges nothing and is not counted as a decision.
func (g *Gate) Peek(ctx context.Context, ask Ask) (v Verdict, err error) {
	err = g.ask(ctx, rule.Peek, &ask, 0, &v)
	return v, err
}

// Refund gives the ask's cost back to its key, the oldest live units first, also to the candidate. A client that is on a
// list, or has no limit, was charged nothing and gets nothing back.
func (g *Gate) Refund(ctx context.Context, ask Ask) (v Verdict, err error) {
	err = g.ask(ctx, rule.GiveBack, &ask, 0, &v)
	return v, err
}

// Charge charges the ask's cost, which must be at least 1, without asking, beyond the quota if need be: also to the candidate. A
// client that is on a list, or has no limit, is charged nothing.
func (g *Gate) Charge(ctx context.Context, ask Ask) (v Verdict, err error) {
	if ask.Cost == 0 {
		return v, fmt.Errorf("gate: %w: must be 1 to %d to charge it, not 0", slidegate.ErrCost, int64(rule.MaxQuota))
	}
	err = g.ask(ctx, rule.Charge, &ask, 0, &v)
	return v, err
}

// Reset forgets what the ask's key has used of the limits that it faces now, and of the candidate, whatever lists say.
func (g *Gate) Reset(ctx context.Context, ask Ask) error {
	ask.Cost = 0
	var v Verdict
	return g.ask(ctx, rule.Reset, &ask, 0, &v)
}

// ask has the engine decide, and fills v. Granted is what a client gets told that the policy only watches.
func (g *Gate) ask(ctx context.Context, op rule.Op, ask *Ask, granted int64, v *Verdict) error {
	var part policy.Part
	s, err := g.part(ask, &part)
	if err != nil {
		return err
	}
	began := g.begin()
	s.set.Ask(ctx, op, &part, v)
	s.order[part.Policy].took(ask.Door, began)
	return told(v, granted)
}

// part fills in an ask as the engine knows it. An address in its key is written as requests have it, so that an application that
// asks by address, a proxy that has requests checked and whoever resets a key mean the same counts.
func (g *Gate) part(ask *Ask, part *policy.Part) (*snapshot, error) {
	s := g.now.Load()
	p, err := s.find(ask.Policy)
	if err == nil {
		err = checkCost(ask.Cost)
	}
	if err != nil {
		return nil, err
	}
	p.fill(ask, part)
	return s, nil
}

// fill fills in an ask of the policy.
func (p *compiled) fill(ask *Ask, part *policy.Part) {
	part.Policy, part.Key, part.Address, part.Cost = p.place, p.Key.Canonical(ask.Key, p.groups), ask.Address, ask.Cost
	if plan, found := p.find(ask.Plan); found && p.plan != nil {
		part.Plan = policy.Named(plan.Name)
	}
}

// checkCost refuses what no limit takes.
func checkCost(cost int64) error {
	if uint64(cost) > rule.MaxQuota {
		return fmt.Errorf("gate: %w: must be 0 to %d, not %d; to give units back use Refund, Settle or Cancel",
			slidegate.ErrCost, int64(rule.MaxQuota), cost)
	}
	return nil
}

// AllowBatch is Allow for many asks at once, in one call to the store; if policies of different failure modes are among
// them, in one call for each mode. The asks are decided in their order where they share a key, each by itself, and all by
// the same policies, whatever is reloaded meanwhile. Verdicts and errs must be as long as asks, and are filled.
func (g *Gate) AllowBatch(ctx context.Context, asks []Ask, verdicts []Verdict, errs []error) {
	if len(verdicts) < len(asks) || len(errs) < len(asks) {
		panic(fmt.Sprintf("gate: AllowBatch: %d asks need as many verdicts and errs, not %d and %d",
			len(asks), len(verdicts), len(errs)))
	}
	s := g.now.Load()
	kept := g.batches.Get().(*[]policy.Part)
	parts := (*kept)[:0]
	for i := range asks {
		ask := &asks[i]
		parts = append(parts, policy.Part{})
		part := &parts[i]
		p, err := s.find(ask.Policy)
		if err == nil {
			err = checkCost(ask.Cost)
		}
		if errs[i] = err; err != nil {
			verdicts[i], part.Policy = Verdict{}, -1
			continue
		}
		p.fill(ask, part)
	}
	began := g.begin()
	s.set.AskBatch(ctx, parts, verdicts)
	for i := range asks {
		if errs[i] == nil {
			s.order[parts[i].Policy].took(asks[i].Door, began)
			errs[i] = told(&verdicts[i], asks[i].Cost)
		}
	}
	clear(parts)
	*kept = parts[:0]
	g.batches.Put(kept)
}

// Reserve takes an estimate now, to be settled when the true cost is known, and slots of in-flight limits. Where nothing was charged (an allow list, no
// limit, a policy that only watches and would have refused) the reservation has no charges, and settling it does nothing;
// if the ask was refused, it is the zero value. A candidate is charged the estimate, and not told of the true cost.
func (g *Gate) Reserve(ctx context.Context, ask Ask) (res slidegate.Reservation, v Verdict, err error) {
	var part policy.Part
	s, err := g.part(&ask, &part)
	if err != nil {
		return res, v, err
	}
	request := s.set.Begin()
	defer request.End()
	part.Hold, request.Slots = true, policy.SlotsReserved
	request.Add(part)
	began := g.begin()
	request.Decide(ctx, rule.Take, &v)
	s.order[part.Policy].took(ask.Door, began)
	taken := v.By == ByLimits && v.Decision.Allowed
	if err := told(&v, ask.Cost); err != nil {
		return res, v, err
	}
	switch {
	case taken:
		res, err = request.Reservation()
	case v.Decision.Allowed:
		res = slidegate.Reservation{Version: slidegate.ReservationVersion, ID: rand.Text(), Charges: []slidegate.ReservedCharge{}}
	}
	g.sign(ctx, s.order[part.Policy].Name, &res)
	return res, v, err
}
