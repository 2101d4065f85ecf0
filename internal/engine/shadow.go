package engine

import (
	"context"

	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// tryShadows adds the policies in shadow mode, each in a request of its own. A peek includes them only if no other policy
// decides.
func (t *Transaction) tryShadows() {
	p := &t.plan
	if t.waited || p.op == rule.Peek && p.hasJoint() {
		return
	}
	for i := range t.parts {
		it := &t.parts[i]
		if it.by == policy.ByLimits && it.err == nil && it.policy.shadow {
			p.begin(it.op(p.op))
			p.add(i, it.bundle, shadow)
		}
	}
}

// reportShadows reports what the policies in shadow mode would have decided.
func (t *Transaction) reportShadows(ctx context.Context, d *policy.Decision) {
	if t.waited || t.plan.isCheck() {
		return
	}
	op := t.plan.op
	for i := range t.parts {
		it := &t.parts[i]
		if !it.policy.shadow {
			continue
		}
		var own policy.Decision
		worth := worthList
		if it.err != nil {
			it.policy.setMistake(&own, it.err)
		} else if it.by != policy.ByLimits {
			it.policy.setListed(op, it.by, it.bundle, it.Part, &own)
		} else {
			e := t.plan.shadowOf(i)
			if e == nil {
				continue
			}
			t.foldAlone(ctx, e, &own)
			worth = worthAllowed
		}
		switch {
		case own.Err != nil:
			worth = worthList
		case !own.Allowed:
			worth = worthRefused
		}
		if counts(op) {
			t.addTried(&own)
		}
		t.offer(d, &own, worth)
	}
}
