package engine

import (
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
)

// describe adds to an outcome of limits what they answered. Answers are those of the limits of b; with none, d is the answer of the only
// limit. They are not kept.
func (o *Outcome) describe(b *bundle, part *Part, d *slidegate.Decision, answers []rule.Answer) {
	o.Plan, o.Method, o.Path = b.plan, part.Method, part.Path
	o.Fallback = d.Flags&answering.Fallbacks != 0
	switch {
	case o.Failed || len(b.limits) == 0:
	case len(answers) == 0 || len(answers) != len(b.limits):
		o.Limit, o.Remaining, o.Never = &b.limits[0], d.Remaining, !d.Allowed && d.RetryAfter == slidegate.Never
	case o.Refused:
		i, _ := answering.Deciding(answers)
		o.Limit, o.Remaining, o.Never = &b.limits[i], answers[i].Remaining, answers[i].RetryAfter == rule.Never
	default:
		o.nearest(b.limits, answers)
	}
}

// nearest sets the limit of which the largest share is used: it is the one that the key will exceed first.
func (o *Outcome) nearest(limits []slidegate.Limit, answers []rule.Answer) {
	most := -1.0
	for i := range answers {
		if share := Share(&limits[i], answers[i].Remaining); share > most {
			most, o.Limit, o.Remaining = share, &limits[i], answers[i].Remaining
		}
	}
}

// Share returns which share of a limit is used if this much remains, from 0 to 1: of the burst of a token bucket, otherwise of the
// quota.
func Share(limit *slidegate.Limit, remaining int64) float64 {
	whole := limit.Quota
	if limit.Algorithm == slidegate.TokenBucket && limit.Burst > 0 {
		whole = limit.Burst
	}
	if whole <= 0 {
		return 1
	}
	return min(max(1-float64(remaining)/float64(whole), 0), 1)
}

// countJoint counts the outcome of a part that others were decided with. The decision d is that of all of them.
func (t *Transaction) countJoint(it *part, e *entry, o Outcome, d *slidegate.Decision) {
	if it.policy.counter == nil {
		return
	}
	if t.plan.hasAnswers(e) {
		o.describe(e.bundle, it.Part, d, t.plan.answers(e))
	}
	it.policy.counter(it.Key, o)
}
