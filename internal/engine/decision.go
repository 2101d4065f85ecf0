package engine

import (
	"context"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// complete completes and counts the decision of a policy's limits.
func (p *compiledPolicy) complete(ctx context.Context, op rule.Op, r *bundle, part *Part, v *policy.Decision, err error) {
	v.Policy, v.Plan, v.Shadow, v.Limits, v.Note = p.name, r.plan, p.shadow, r.limits, r.note
	switch {
	case err != nil:
		fail(ctx, v, p.mode, part.cost(), err)
	case v.Decision.Flags&answering.Fallbacks != 0:
		p.set.explain(v)
	}
	v.Refused = refuses(v)
	failed := failed(v)
	if p.counter != nil && counts(op) && !v.Ended {
		o := Outcome{Shadow: p.shadow, Refused: !v.Decision.Allowed, Failed: failed, Penalized: v.Penalty > 0}
		o.describe(r, part, &v.Decision, v.Answers)
		p.counter(part.Key, o)
	}
	if !failed {
		p.noteDecision(op, r, part.Key, v)
	}
}

func (p *compiledPolicy) count(key string, outcome Outcome) {
	if p.counter != nil {
		p.counter(key, outcome)
	}
}

// setMistake sets the decision on a part that cannot be decided.
func (p *compiledPolicy) setMistake(v *policy.Decision, err error) {
	v.Policy, v.Shadow, v.Err, v.Refused = p.name, p.shadow, err, !p.shadow
	if _, unknown := err.(*partError); unknown {
		v.Flags = rule.FallbackClosed
	} else {
		v.Mistake = true
	}
}

// setListed sets and counts the decision on a part that no limits apply to. The rules are those of a ruling or a plan, if one
// decides.
func (p *compiledPolicy) setListed(op rule.Op, by policy.By, r *bundle, part *Part, v *policy.Decision) {
	refused := refusesAll(by)
	*v = policy.Decision{Policy: p.name, Plan: r.planName(), By: by, Shadow: p.shadow, Refused: refused && !p.shadow}
	if refused {
		v.Decision.RetryAfter = r.refusedFor()
	} else {
		v.Decision.Allowed = true
	}
	if !counts(op) {
		return
	}
	if !refused {
		v.Decision.Granted = part.cost()
	}
	p.count(part.Key, Outcome{By: by, Shadow: p.shadow, Refused: refused, Plan: r.planName(), Method: part.Method, Path: part.Path})
}

// refusesAll reports whether what decided a request refuses everything, without limits.
func refusesAll(by policy.By) bool { return by == policy.ByBlockList || by == policy.ByRuling }

// fail turns an error into a decision: the failure mode decides in an outage, everything else is refused.
func fail(ctx context.Context, v *policy.Decision, mode store.Mode, cost int64, err error) {
	v.Err = err
	v.Decision = slidegate.Decision{}
	switch {
	case detach.HasEnded(ctx):
		v.Ended = true
	case failure.IsMistake(err):
		v.Mistake = true
	default:
		v.Decision.Flags = rule.FallbackClosed
		if mode == store.FailOpen {
			v.Decision = slidegate.Decision{Allowed: true, Flags: rule.FallbackOpen, Granted: cost}
		}
	}
}

// undecided are the flags of decisions that no limit made, except for refusals in the mode open.
const undecided = rule.FallbackOpen | rule.FallbackClosed

// failed reports whether no limit decided: the request could not be decided, or the failure mode admits or refuses
// everything. A store without layers reports that by an error and a failure layer by its flags. What the mode open refuses,
// the limit can never admit.
func failed(v *policy.Decision) bool {
	return v.Ended || v.Mistake || v.Decision.Flags&undecided != 0 && (v.Decision.Allowed || v.Decision.Flags&rule.FallbackClosed != 0)
}

// refuses reports whether a decision refuses the request.
func refuses(v *policy.Decision) bool { return !v.Decision.Allowed && !v.Shadow }

// refusedFor returns how long rules without limits refuse everything: to the end of a ruling, or forever.
func (r *bundle) refusedFor() time.Duration {
	if r == nil || r.until.IsZero() {
		return slidegate.Never
	}
	return max(time.Until(r.until), time.Microsecond) // it was just in force
}

// explain adds to a decision of a failure mode why the store did not answer. During an outage all requests have the same
// reason.
func (s *Set) explain(v *policy.Decision) {
	if s.lastErr == nil || v.Decision.Flags&answering.Fallbacks == 0 {
		return
	}
	if why := s.lastErr.Load(); why != nil {
		v.Err = *why
	}
}
