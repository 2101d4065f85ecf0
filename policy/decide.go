package policy

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// Part is one policy's part of a request.
type Part struct {
	Policy  int        // its index in the policies passed to New
	Key     string     // the client that is limited
	Address netip.Addr // the client's address, if known, for allow and deny lists
	// Cost is how many units are taken. With 0 nothing is charged, but the request is denied as if it cost one unit: it
	// checks whether a unit is left, for those who charge otherwise. A negative cost counts as 1, and one above
	// rule.MaxQuota as rule.MaxQuota: as an error it could admit a request that must be denied.
	Cost int64
	Plan Plan
	// Candidate uses the candidate's limits instead of the policy's own. It is a mistake if the policy has none.
	Candidate bool
	// Hold keeps what a Request takes, for Settle. A Cost of 0 then means that everything is charged afterwards. A
	// Request with SlotsHeld takes one unit for it until Settle, so that concurrent requests do not all get the last one.
	Hold bool
	// Err is why the application could not say who the client is, or what its plan is. The part is then not decided: it
	// denies the request, whatever the failure mode is, since the limits of another client or plan would be wrong. The
	// verdict has Err, and the flag rule.FallbackClosed.
	Err error

	slots bool // it takes a slot, whatever its cost
	later bool // everything is charged afterwards, by its Request, which takes one unit until then
}

// usesOwnLimits reports whether the limits that the policy has for the key apply to the part.
func (p *Part) usesOwnLimits() bool { return p.Plan.kind == planOwn && !p.Candidate && p.Err == nil }

// peeks reports whether the part takes nothing, and only checks whether one unit is left.
func (p *Part) peeks() bool { return p.Cost == 0 && !p.Hold && !p.slots }

// op returns the operation that decides the part on its own.
func (p *Part) op(op rule.Op) rule.Op {
	if counts(op) && p.peeks() {
		return rule.Peek
	}
	return op
}

// costOf returns the cost of the part in an op. A peek at nothing would be denied only where more than the quota is used.
func (p *Part) costOf(op rule.Op) int64 {
	if op == rule.Peek {
		return max(p.cost(), 1)
	}
	return p.cost()
}

// cost returns the cost, clamped to the range that limits accept.
func (p *Part) cost() int64 {
	if p.Cost < 0 {
		return 1
	}
	return min(p.Cost, rule.MaxQuota)
}

// Decide decides a single part and fills v, which must be the zero value. The op is rule.Take, rule.TakeUpTo, rule.Peek,
// rule.Charge, rule.GiveBack or rule.Reset; the last one also resets the usage of clients on a list. Charges and refunds are
// carried out even if ctx has ended. Decide takes no slots of in-flight limits, because nothing would release them: taking
// from such a limit is a mistake, whose Err wraps ErrSlots. A Request can hold them.
func (s *Set) Decide(ctx context.Context, op rule.Op, part *Part, v *Verdict) {
	p := s.policies[part.Policy]
	if op != rule.Take || part.Cost == 0 || !p.isSimple() || !part.usesOwnLimits() {
		p.decideAny(ctx, op, part, v)
		return
	}
	// Most requests take this path, so it must be fast: it is not a separate function.
	cost := part.Cost
	if uint64(cost) > rule.MaxQuota {
		cost = part.cost()
	}
	d := &v.Decision
	err := p.own.limiter.AllowInto(ctx, part.Key, cost, d)
	if err != nil || d.Flags&^rule.Leased != 0 {
		p.complete(ctx, rule.Take, p.own, part, v, err)
		return
	}
	v.Policy, v.Shadow, v.Limits, v.note = p.name, p.shadow, p.own.limits, p.own.note
	v.Refused = !d.Allowed && !p.shadow
	if p.counter != nil {
		p.counter(part.Key, Outcome{Shadow: p.shadow, Refused: !d.Allowed})
	}
}

// decideAny decides a part of any kind under any policy.
func (p *compiled) decideAny(ctx context.Context, op rule.Op, part *Part, v *Verdict) {
	r, by, err := p.route(op, part)
	switch {
	case err == nil && by == ByLimits:
		err = p.checkSlots(op, r, SlotsNone)
	}
	switch {
	case err != nil:
		p.setMistake(v, err)
	case op == rule.Reset:
		p.reset(ctx, part, v)
	case by != ByLimits:
		p.setListed(op, by, r, part, v)
	case p.triesCandidate(op, r, part, SlotsNone) || p.penalizes(op, r, part):
		request := p.set.Begin()
		request.Add(*part)
		request.Decide(ctx, op, v)
		request.End()
	default:
		p.decideSingle(ctx, op, r, part, v)
	}
}

// decideSingle decides by the limiter.
func (p *compiled) decideSingle(ctx context.Context, op rule.Op, r *rules, part *Part, v *Verdict) {
	var err error
	decided := part.op(op)
	cost := part.costOf(decided)
	switch decided {
	case rule.Take:
		v.Decision, err = r.limiter.AllowN(ctx, part.Key, cost)
	case rule.TakeUpTo:
		v.Decision, err = r.limiter.AllowUpTo(ctx, part.Key, cost)
	case rule.Peek:
		v.Decision, err = r.limiter.PeekN(ctx, part.Key, cost)
	case rule.GiveBack:
		v.Decision, err = r.limiter.Refund(ctx, part.Key, cost)
	case rule.Charge:
		v.Decision, err = r.limiter.Charge(ctx, part.Key, cost)
	default:
		err = fmt.Errorf("policy: %w: unsupported operation %v", slidegate.ErrUnsupported, op)
	}
	p.complete(ctx, op, r, part, v, err)
}

// reset resets the usage of a key under the limits that apply to it, also those of a ruling, and under the candidate,
// whatever the lists contain.
func (p *compiled) reset(ctx context.Context, part *Part, v *Verdict) {
	r := p.rulesFor(part.Key)
	if r.limiter == nil {
		r = p.own
	}
	err := r.limiter.Reset(ctx, part.Key)
	for _, plan := range p.named {
		if err == nil && plan.limiter != nil { // which plan the key has had is unknown
			err = plan.limiter.Reset(ctx, part.Key)
		}
	}
	if ruling := p.rulingOf(part.Key); err == nil && ruling != nil && ruling.limiter != nil {
		r = ruling.rules
		err = r.limiter.Reset(ctx, part.Key)
	}
	if err == nil && p.candidate != nil {
		err = p.candidate.limiter.Reset(ctx, part.Key)
	}
	if err == nil && p.penalty != nil {
		err = p.resetPenalty(ctx, "", part.Key)
	}
	v.Decision.Allowed = err == nil
	p.complete(ctx, rule.Reset, r, part, v, err)
}

// complete completes and counts the verdict of a policy's limits.
func (p *compiled) complete(ctx context.Context, op rule.Op, r *rules, part *Part, v *Verdict, err error) {
	v.Policy, v.Plan, v.Shadow, v.Limits, v.note = p.name, r.plan, p.shadow, r.limits, r.note
	switch {
	case err != nil:
		v.fail(ctx, p.mode, part.cost(), err)
	case v.Decision.Flags.Fallback():
		p.set.explain(v, p.mode)
	}
	v.Refused = v.refuses()
	failed := v.failed()
	if counts(op) && !v.Ended() {
		p.count(part.Key, Outcome{Shadow: p.shadow, Refused: !failed && !v.Decision.Allowed, Failed: failed})
	}
}

// counts reports whether an op makes a decision.
func counts(op rule.Op) bool { return op == rule.Take || op == rule.TakeUpTo }

func (p *compiled) count(key string, outcome Outcome) {
	if p.counter != nil {
		p.counter(key, outcome)
	}
}

// setMistake sets the verdict on a part that cannot be decided.
func (p *compiled) setMistake(v *Verdict, err error) {
	v.Policy, v.Shadow, v.Err, v.fault, v.Refused = p.name, p.shadow, err, faultMistake, !p.shadow
	if _, unknown := err.(*partError); unknown {
		v.fault, v.Decision.Flags = faultStore, rule.FallbackClosed
	}
}

// partError is the Err of a Part.
type partError struct{ error }

// Unwrap returns the application's error.
func (e *partError) Unwrap() error { return e.error }

// setListed sets and counts the verdict on a part that no limits apply to. The rules are those of a ruling or a plan, if one
// decides.
func (p *compiled) setListed(op rule.Op, by By, r *rules, part *Part, v *Verdict) {
	denied := by.refuses()
	*v = Verdict{Policy: p.name, Plan: r.planName(), By: by, Shadow: p.shadow, Refused: denied && !p.shadow}
	if denied {
		v.Decision.RetryAfter = r.refusedFor()
	} else {
		v.Decision.Allowed = true
	}
	if !counts(op) {
		return
	}
	if !denied {
		v.Decision.Granted = part.cost()
	}
	p.count(part.Key, Outcome{By: by, Shadow: p.shadow, Refused: denied})
}

// triesCandidate reports whether the candidate is decided too. It is, for the same keys as the policy's own limits, and for
// every op but a peek. A candidate with in-flight limits is decided only where its slots are released.
func (p *compiled) triesCandidate(op rule.Op, r *rules, part *Part, slots Slots) bool {
	if p.candidate == nil || r != p.own || op == rule.Peek || part.peeks() && p.candidate.slots {
		return false
	}
	return p.candidateError(op, slots) == nil
}
