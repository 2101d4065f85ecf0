package gate

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// Allow takes the cost of the request, all or nothing. The error wraps ErrPolicy for an unknown policy and
// slidegate.ErrCost for an invalid cost; other errors are the store's.
func (g *Gate) Allow(ctx context.Context, req Request) (v Verdict, err error) {
	err = g.decide(ctx, rule.Take, &req, req.Cost, &v)
	return v, err
}

// AllowUpTo takes as much of the cost as the limits admit now, at least one unit; Decision.Granted is the amount.
func (g *Gate) AllowUpTo(ctx context.Context, req Request) (v Verdict, err error) {
	err = g.decide(ctx, rule.TakeUpTo, &req, req.Cost, &v)
	return v, err
}

// Peek returns what Allow would return. It charges nothing and is not counted as a decision.
func (g *Gate) Peek(ctx context.Context, req Request) (v Verdict, err error) {
	err = g.decide(ctx, rule.Peek, &req, 0, &v)
	return v, err
}

// Refund returns the cost of the request to its key, the oldest live units first. It also refunds the candidate. A key
// that is on a list or has no limit was charged nothing, and nothing is refunded.
func (g *Gate) Refund(ctx context.Context, req Request) (v Verdict, err error) {
	err = g.decide(ctx, rule.GiveBack, &req, 0, &v)
	return v, err
}

// Charge charges the cost of the request, which must be at least 1, without a check and even beyond the quota. It
// also charges the candidate. A key that is on a list or has no limit is charged nothing.
func (g *Gate) Charge(ctx context.Context, req Request) (v Verdict, err error) {
	if req.Cost == 0 {
		return v, fmt.Errorf("%w: must be 1 to %d, not 0", slidegate.ErrCost, int64(rule.MaxQuota))
	}
	err = g.decide(ctx, rule.Charge, &req, 0, &v)
	return v, err
}

// Reset deletes what the key of the request has used of the limits that apply to it now, and of the candidate, even
// if the key is on a list.
func (g *Gate) Reset(ctx context.Context, req Request) error {
	req.Cost = 0
	var v Verdict
	return g.decide(ctx, rule.Reset, &req, 0, &v)
}

// decide has the engine decide, and fills v. Granted is the amount that the client gets if the policy is in shadow mode.
func (g *Gate) decide(ctx context.Context, op rule.Op, req *Request, granted int64, v *Verdict) error {
	var part policy.Part
	s, err := g.part(req, &part)
	if err != nil {
		return err
	}
	began := g.begin()
	s.set.Decide(ctx, op, &part, v)
	s.order[part.Policy].recordLatency(req.Listener, began)
	return forClient(v, granted)
}

// part converts a request for the engine. Addresses in keys are normalized as they are for HTTP requests, so that an
// application that sends an address, a proxy that checks requests and an operator who resets a key all refer to the
// same counts.
func (g *Gate) part(req *Request, part *policy.Part) (*snapshot, error) {
	s := g.current.Load()
	p, err := s.find(req.Policy)
	if err == nil {
		err = checkCost(req.Cost)
	}
	if err != nil {
		return nil, err
	}
	p.fill(req, part)
	return s, nil
}

// fill converts a request under the policy.
func (p *compiled) fill(req *Request, part *policy.Part) {
	part.Policy, part.Key, part.Address, part.Cost = p.index, p.Key.Canonical(req.Key, p.groups), req.Address, req.Cost
	if p.listed && !req.Address.IsValid() {
		part.Address = p.addressIn(req.Key)
	}
	if plan, found := p.find(req.Plan); found && p.plan != nil {
		part.Plan = policy.Named(plan.Name)
	}
}

// checkCost rejects a cost that no limit accepts.
func checkCost(cost int64) error {
	if uint64(cost) > rule.MaxQuota {
		return fmt.Errorf("%w: must be 0 to %d, not %d; to give units back use Refund, Settle or Cancel",
			slidegate.ErrCost, int64(rule.MaxQuota), cost)
	}
	return nil
}

// AllowBatch is Allow for many requests in one call to the store, or in one call per failure mode if their policies have
// different ones. Requests that share a key are decided in order, each separately. All requests are decided by the same
// policies, even if a reload happens at the same time. AllowBatch fills verdicts and errs, which must be at least as long
// as reqs.
func (g *Gate) AllowBatch(ctx context.Context, reqs []Request, verdicts []Verdict, errs []error) {
	if len(verdicts) < len(reqs) || len(errs) < len(reqs) {
		panic(fmt.Sprintf("gate: AllowBatch: %d requests with %d verdicts and %d errs; both must be at least as long as the requests",
			len(reqs), len(verdicts), len(errs)))
	}
	s := g.current.Load()
	pooled := g.batches.Get().(*[]policy.Part)
	parts := (*pooled)[:0]
	for i := range reqs {
		req := &reqs[i]
		parts = append(parts, policy.Part{})
		part := &parts[i]
		p, err := s.find(req.Policy)
		if err == nil {
			err = checkCost(req.Cost)
		}
		if errs[i] = err; err != nil {
			verdicts[i], part.Policy = Verdict{}, -1
			continue
		}
		p.fill(req, part)
	}
	began := g.begin()
	s.set.DecideBatch(ctx, parts, verdicts)
	for i := range reqs {
		if errs[i] == nil {
			s.order[parts[i].Policy].recordLatency(reqs[i].Listener, began)
			errs[i] = forClient(&verdicts[i], reqs[i].Cost)
		}
	}
	clear(parts)
	*pooled = parts[:0]
	g.batches.Put(pooled)
}

// Reserve takes an estimate now, to be settled when the actual cost is known, and slots of in-flight limits. If nothing
// was charged (an allow list, no limit, or a policy in shadow mode that would have denied), the reservation has no
// charges, and settling it does nothing; if the request was denied, it is the zero value. A candidate is charged the
// estimate, which is not corrected later. What is taken for a client that leaves before Reserve returns is cancelled; if
// the client does not get the reservation later, call CancelUnsent.
func (g *Gate) Reserve(ctx context.Context, req Request) (res slidegate.Reservation, v Verdict, err error) {
	var part policy.Part
	s, err := g.part(&req, &part)
	if err != nil {
		return res, v, err
	}
	request := s.set.Begin()
	defer request.End()
	part.Hold, request.Slots = true, policy.SlotsReserved
	request.Add(part)
	began := g.begin()
	request.Decide(ctx, rule.Take, &v)
	s.order[part.Policy].recordLatency(req.Listener, began)
	taken := v.By == ByLimits && v.Decision.Allowed
	if err := forClient(&v, req.Cost); err != nil {
		return res, v, err
	}
	switch {
	case taken:
		res, err = request.Reservation()
	case v.Decision.Allowed:
		res = slidegate.Reservation{
			Version: slidegate.ReservationVersion, ID: rand.Text(), Namespace: s.order[part.Policy].Name, Charges: []slidegate.ReservedCharge{},
		}
	}
	if ended := ctx.Err(); ended != nil && len(res.Charges) > 0 { // the client left meanwhile, and will never see it
		_, err = s.set.Limiter(part.Policy).Finish(ctx, res, ended)
		return slidegate.Reservation{}, Verdict{}, cmp.Or(err, ended)
	}
	g.sign(ctx, s.order[part.Policy].Name, &res)
	return res, v, err
}
