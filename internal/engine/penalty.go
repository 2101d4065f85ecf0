package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A penalty is an additional limit beside those of the policy: a fixed window as long as the penalty that begins with the
// first charge. Every decision of the policy also takes 0 units from it, which is refused while it is overdrawn, and the first
// refusal by the policy's limits overdraws it. So it is kept in the store, all processes obey it, and it ends with its window;
// later refusals do not extend it, since its window has begun.

const (
	// penaltyName is the name of the limit.
	penaltyName = "penalty"
	// penaltyQuota is its quota, and penaltyUnits what is charged to begin it: more than the quota, so that a cost of 0
	// is refused.
	penaltyQuota = 1
	penaltyUnits = 2
)

// penalize makes the limit of the policy's penalty.
func (p *compiledPolicy) penalize(given *Spec) error {
	if given.Penalty == 0 {
		return nil
	}
	isNamed := func(l slidegate.Limit) bool { return l.Name == penaltyName }
	all := slices.Concat(p.own.limits, given.Limits)
	for _, override := range given.Overrides {
		all = append(all, override.Limits...)
	}
	for _, plan := range given.Plans {
		all = append(all, plan.Limits...)
	}
	switch {
	case given.Penalty < 0:
		return fmt.Errorf("must not be negative, got %v", given.Penalty)
	case slices.ContainsFunc(all, isNamed):
		return fmt.Errorf("the policy has a limit named %q, which is the name of the penalty's own limit; give the limit another name", penaltyName)
	case slices.ContainsFunc(all, func(l slidegate.Limit) bool { return l.Lease }):
		return errors.New("every request checks the penalty in the store, so a lease would save nothing; remove the lease or the penalty")
	}
	limit := slidegate.Limit{
		Name: penaltyName, Quota: penaltyQuota, Window: given.Penalty, Algorithm: slidegate.FixedWindow, Anchor: slidegate.AnchorFirst,
	}
	limiter, err := p.own.limiter.With(p.withPolicyName([]slidegate.Limit{limit})...)
	if err != nil {
		return err
	}
	p.penalty = adapter.Bound(limiter)[0]
	return nil
}

// penalizes reports whether the policy's penalty applies to an op under rules. It does not apply to those of a ruling:
// an operator who raises the limits of a key wants it to be admitted.
func (p *compiledPolicy) penalizes(op rule.Op, r *bundle, part *Part) bool {
	return p.penalty != nil && !r.ruled && (counts(op) || op == rule.Peek)
}

// penalty is the penalty of one entry of a plan.
type penalty struct {
	entry   int
	checked bool // the request checks it
	index   int  // of its answer in the request, as soon as it is sent
	policy  *compiledPolicy
	key     string
	begins  bool        // a refusal begins it
	left    rule.Micros // how long the key is kept out
}

// addPenalties adds to each request the penalties of its policies. Taking up to a number of units would grant no more than the
// penalty's 0, so the penalties are looked up first: a request that is kept out takes all or nothing, and so is refused.
func (t *Transaction) addPenalties(ctx context.Context) {
	p := &t.plan
	t.penalties = t.penalties[:0]
	for i := range p.entries {
		e := &p.entries[i]
		it, op := &t.parts[e.part], p.ops[e.request]
		if e.role != adds && it.policy.penalizes(op, e.bundle, it.Part) {
			t.penalties = append(t.penalties, penalty{entry: i, policy: it.policy, key: it.Key, begins: counts(op)})
		}
	}
	if len(t.penalties) == 0 {
		return
	}
	if p.op == rule.TakeUpTo {
		t.set.sendPenalties(ctx, rule.Peek, t.Group, pointers(t.penalties))
	}
	for i := range t.penalties {
		if one := &t.penalties[i]; one.left > 0 {
			p.ops[p.entries[one.entry].request] = rule.Take
		}
	}
	for i := range t.penalties {
		one := &t.penalties[i]
		one.left = 0
		request := p.entries[one.entry].request
		if p.ops[request] == rule.TakeUpTo {
			continue
		}
		one.begins, one.checked = one.begins && p.op != rule.TakeUpTo, true
	}
}

func pointers(all []penalty) []*penalty {
	to := make([]*penalty, len(all))
	for i := range all {
		to[i] = &all[i]
	}
	return to
}

// applyPenalties carries out the penalties of a plan that the store has answered: it begins those of keys that have exceeded
// their limits, and refuses those that are kept out.
func (t *Transaction) applyPenalties(ctx context.Context) {
	if len(t.penalties) == 0 {
		return
	}
	p := &t.plan
	var peeks, begins []*penalty
	for i := range t.penalties {
		one := &t.penalties[i]
		e := &p.entries[one.entry]
		result := p.result(e)
		switch {
		case result.Err != nil:
		case one.checked && !result.Answers[one.index].Allowed:
			one.left = result.Answers[one.index].RetryAfter
		case !one.begins || !exceeds(p.answers(e)):
		case p.answers(e)[0].Flags&rule.Cached != 0:
			peeks = append(peeks, one) // the refusal was remembered from before the penalty, which has probably begun
		default:
			begins = append(begins, one)
		}
	}
	begins = append(begins, t.set.sendPenalties(ctx, rule.Peek, t.Group, peeks)...)
	t.set.sendPenalties(ctx, rule.Charge, t.Group, begins)
	for i := range t.penalties {
		if one := &t.penalties[i]; one.left > 0 {
			e := &p.entries[one.entry]
			e.kept = one.left
			refuseAll(p.answers(e), one.left)
		}
	}
}

// sendPenalties looks up penalties, by a Peek, or begins them, by a Charge, and records how long they last. It returns those
// that are not in force.
func (s *Set) sendPenalties(ctx context.Context, op rule.Op, group string, all []*penalty) (none []*penalty) {
	if len(all) == 0 {
		return nil
	}
	var b batch
	for _, p := range all {
		b.begin(op)
		charge := store.Charge{Limit: p.policy.penalty, Key: p.key}
		if op == rule.Charge {
			charge.Cost = penaltyUnits
		}
		b.add(charge)
	}
	// The client may have left, and has exceeded its limits all the same.
	ctx, cancel := detach.Context(ctx, s.traits)
	defer cancel()
	b.apply(ctx, group, 0, s.store)
	for i, p := range all {
		result := &b.requests[i]
		switch a := &result.Answers[0]; {
		case result.Err != nil:
			s.logPenaltyError(p.policy, result.Err)
		case op == rule.Charge:
			p.left = a.ResetAfter
		case !a.Allowed:
			p.left = a.RetryAfter
		default:
			none = append(none, p)
		}
	}
	return none
}

// exceeds reports whether limits refused a request because too much was used: not because it can never be admitted, and
// not because the store could not decide.
func exceeds(own []rule.Answer) bool {
	return slices.ContainsFunc(own, func(a rule.Answer) bool {
		return !a.Allowed && a.RetryAfter != rule.Never && a.Flags&undecided == 0
	})
}

// refuseAll turns the answers of a policy's limits into refusals.
func refuseAll(own []rule.Answer, left rule.Micros) {
	for i := range own {
		a := &own[i]
		a.Allowed, a.Granted, a.Remaining, a.NextAfter = false, 0, 0, 0
		a.RetryAfter, a.ResetAfter = max(a.RetryAfter, left), max(a.ResetAfter, left)
	}
}

// logPenaltyError logs that a penalty could not be looked up or begun, at most once per minute: the request is refused
// nevertheless, by the limits.
func (s *Set) logPenaltyError(p *compiledPolicy, err error) {
	const pause = time.Minute
	now := time.Now().UnixNano()
	last := s.penaltyErrorLogged.Load()
	if now-last < int64(pause) || !s.penaltyErrorLogged.CompareAndSwap(last, now) {
		return
	}
	slog.Warn("slidegate: the penalty of a policy could not be looked up or begun", slog.String("policy", p.name), slog.Any("error", err))
}
