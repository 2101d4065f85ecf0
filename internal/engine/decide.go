package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// Decide decides the request and fills d, which must be the zero value. The op is rule.Take, rule.TakeUpTo or rule.Peek. A client that
// waits calls it again. Where policies with different failure modes decide together, the strictest mode applies. If all
// parts are on lists or under shadow policies, d is the most informative decision among them.
func (t *Transaction) Decide(ctx context.Context, op rule.Op, d *policy.Decision) {
	if t.mayWait(op) {
		t.decideInLine(ctx, d)
		return
	}
	t.decideNow(ctx, op, d)
}

// decideNow decides the request without a wait.
func (t *Transaction) decideNow(ctx context.Context, op rule.Op, d *policy.Decision) {
	t.held.admitted = false
	clear(t.decided)
	clear(t.tried)
	t.decided, t.tried, t.worth = t.decided[:0], t.tried[:0], 0
	t.routeAll(op, t.given)
	for i := range t.parts {
		switch it := &t.parts[i]; {
		case it.policy.shadow:
		case it.err != nil:
			it.policy.setMistake(d, it.err)
			return
		case refusesAll(it.by):
			it.policy.setListed(op, it.by, it.bundle, it.Part, d)
			return
		}
	}
	if t.decideAlone(ctx, op, d) || counts(op) && t.checkFree(ctx, op, d) {
		return
	}
	t.list(op)
	if err := t.carryOut(ctx); err != nil {
		t.parts[0].policy.setMistake(d, err)
		return
	}
	t.conclude(ctx, d)
	t.waited = t.waited || op != rule.Peek
}

// carryOut adds to the plan what policies have beside the limits that decide, and sends it. Parts that are decided independently, and
// checks of those that cost nothing, have penalties and nothing else. Slots are awaited before penalties are applied, because that may
// call the store again.
func (t *Transaction) carryOut(ctx context.Context) error {
	whole := !t.plan.each && !t.plan.isCheck()
	if whole {
		t.peekFree()
		t.tryShadows()
		t.identifyHold()
	}
	t.addPenalties(ctx)
	if err := t.send(ctx); err != nil {
		return err
	}
	if whole {
		t.awaitSlots(ctx)
	}
	t.applyPenalties(ctx)
	t.trim()
	return nil
}

// conclude makes the decision from the answers.
func (t *Transaction) conclude(ctx context.Context, d *policy.Decision) {
	t.foldListed(d)
	if t.plan.hasJoint() {
		t.foldJoint(ctx, d)
	}
	t.reportShadows(ctx, d)
	t.keepTaken()
	if d.Refused { // what another policy would have admitted was not charged
		t.decided = slices.DeleteFunc(t.decided, func(own policy.Decision) bool { return !own.Refused })
	}
	t.held.admitted = !d.Refused
}

// decideAlone decides a request with only one part by the shortest path, and reports whether it did.
func (t *Transaction) decideAlone(ctx context.Context, op rule.Op, d *policy.Decision) bool {
	if len(t.parts) != 1 || t.Group != "" || t.trying { // the short path keeps no plan, from which a refusal is counted when it is final
		return false
	}
	it := &t.parts[0]
	if it.Hold || it.slots || it.holds || !it.decides() || it.policy.hasMore(op, it.bundle, it.Part) {
		return false
	}
	it.policy.decideSingle(ctx, op, it.bundle, it.Part, d)
	return true
}

// CountsRefused reports whether one of the limits counts refused requests, or a refusal begins a penalty, so that a
// waiting client must peek before it takes.
func (t *Transaction) CountsRefused() bool {
	t.routeAll(rule.Take, t.given)
	for i := range t.parts {
		it := &t.parts[i]
		if it.err != nil || it.by != policy.ByLimits {
			continue
		}
		if it.policy.penalizes(rule.Take, it.bundle, it.Part) ||
			slices.ContainsFunc(it.bundle.limits, func(l slidegate.Limit) bool { return l.CountRefused }) {
			return true
		}
	}
	return false
}

// Decide decides a single part and fills v, which must be the zero value. The op is rule.Take, rule.TakeUpTo, rule.Peek,
// rule.Charge, rule.GiveBack or rule.Reset; the last one also resets the usage of clients on a list. Charges and refunds are
// carried out even if ctx has ended. Decide takes no slots of in-flight limits, because nothing would release them: taking
// from such a limit is a mistake, whose Err wraps policy.ErrSlots. A Transaction can hold them.
func (s *Set) Decide(ctx context.Context, op rule.Op, part *Part, v *policy.Decision) {
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
	v.Policy, v.Shadow, v.Limits, v.Note = p.name, p.shadow, p.own.limits, p.own.note
	v.Refused = !d.Allowed && !p.shadow
	if p.counter != nil {
		o := Outcome{Shadow: p.shadow, Refused: !d.Allowed}
		o.describe(p.own, part, d, d.Answers)
		p.counter(part.Key, o)
	}
}

// decideAny decides a part of any kind under any policy.
func (p *compiledPolicy) decideAny(ctx context.Context, op rule.Op, part *Part, v *policy.Decision) {
	r, by, err := p.route(op, part)
	if err == nil && by == policy.ByLimits {
		err = p.checkSlots(op, r, SlotsNone)
	}
	switch {
	case err != nil:
		p.setMistake(v, err)
	case op == rule.Reset:
		p.reset(ctx, part, v)
	case by != policy.ByLimits:
		p.setListed(op, by, r, part, v)
	case p.hasMore(op, r, part):
		request := p.set.Begin()
		request.Add(*part)
		request.Decide(ctx, op, v)
		request.End()
	default:
		p.decideSingle(ctx, op, r, part, v)
	}
}

// decideSingle decides by the limiter.
func (p *compiledPolicy) decideSingle(ctx context.Context, op rule.Op, r *bundle, part *Part, v *policy.Decision) {
	var err error
	decided := part.op(op)
	cost := part.costOf(decided)
	switch decided {
	case rule.Take:
		v.Decision, err = r.limiter.AllowN(ctx, part.Key, cost)
	case rule.TakeUpTo:
		v.Decision, err = r.limiter.AllowUpTo(ctx, part.Key, cost)
	case rule.Peek:
		v.Decision, err = r.limiter.Peek(ctx, part.Key, cost)
	case rule.GiveBack:
		v.Decision, err = r.limiter.Refund(ctx, part.Key, cost)
	case rule.Charge:
		v.Decision, err = r.limiter.Charge(ctx, part.Key, cost)
	default:
		err = fmt.Errorf("policy: %w: unsupported operation %v", slidegate.ErrUnsupported, op)
	}
	p.complete(ctx, op, r, part, v, err)
}

// hasMore reports whether a decision by these limits takes more than them: a penalty, the memory of a call, or a wait.
func (p *compiledPolicy) hasMore(op rule.Op, b *bundle, part *Part) bool {
	return op == rule.Take && (part.ID != "" || p.waitOf(part) > 0) || p.penalizes(op, b, part)
}

// DecideBatch is Decide with rule.Take for many parts, in one call to the store. Parts that share a key are decided in
// order, and each independently. Decisions must be as long as parts; a part whose Policy is negative is skipped, and its
// decision left unchanged.
func (s *Set) DecideBatch(ctx context.Context, parts []Part, decisions []policy.Decision) {
	t := s.Begin()
	defer t.End()
	t.routeAll(rule.Take, parts)
	for i := range t.parts {
		it := &t.parts[i]
		if it.Policy < 0 {
			continue
		}
		decisions[i] = policy.Decision{}
		if it.err != nil {
			it.policy.setMistake(&decisions[i], it.err)
		} else if it.by != policy.ByLimits {
			it.policy.setListed(rule.Take, it.by, it.bundle, it.Part, &decisions[i])
		}
	}
	if t.listEach(rule.Take); len(t.plan.ops) > 0 {
		t.carryOut(ctx)
		t.foldEach(ctx, decisions)
	}
}

// checkFree checks whether the parts that cost nothing would be admitted at one unit, and reports whether it has decided the
// request: it is refused, or could not be checked. Shadow policies do not see such a request.
func (t *Transaction) checkFree(ctx context.Context, op rule.Op, d *policy.Decision) bool {
	if !t.listFree(op) {
		return false
	}
	if err := t.carryOut(ctx); err != nil {
		t.parts[0].policy.setMistake(d, err)
		return true
	}
	if joint := &t.plan.batch.requests[0]; joint.Err == nil && !slices.ContainsFunc(joint.Answers, isRefusal) {
		return false
	}
	t.conclude(ctx, d)
	return true
}
