package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A penalty is an additional limit beside those of the policy: a fixed window as long as the penalty that begins with the
// first charge. Every decision of the policy also takes 0 units from it, which is denied while it is overdrawn, and the first
// denial by the policy's limits overdraws it. So it is kept in the store, all processes obey it, and it ends with its window;
// later denials do not extend it, since its window has begun.

const (
	// penaltyName is the name of the limit.
	penaltyName = "penalty"
	// penaltyQuota is its quota, and penaltyUnits what is charged to begin it: more than the quota, so that a cost of 0
	// is denied.
	penaltyQuota = 1
	penaltyUnits = 2
)

// penalize makes the limit of the policy's penalty.
func (p *compiled) penalize(given *Policy) error {
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
	p.penalty = limiter.Bound()[0]
	return nil
}

// penalizes reports whether the policy's penalty applies to an op under rules. It does not apply to those of a ruling:
// an operator who raises the limits of a key wants it to be admitted.
func (p *compiled) penalizes(op rule.Op, r *rules, part *Part) bool {
	return p.penalty != nil && !part.Candidate && !r.ruled && (counts(op) || op == rule.Peek)
}

// penalty is one part's penalty in a batch.
type penalty struct {
	policy   *compiled
	key      string
	request  int // the index of the request in the batch with the part's own limits
	from, to int // where their answers are in it
	index    int // where the penalty's own answer is in it; -1 if there is none
	begins   bool
	left     rule.Micros // how long the key is kept out
}

// penalize adds the penalty of a part to the last request, in which the answers of the part's own limits begin at from.
// It is called after all charges of the policies' own limits were added.
func (b *batch) penalize(op rule.Op, it *target, part *Part, from int) {
	if !it.policy.penalizes(op, it.rules, part) {
		return
	}
	last := len(b.requests) - 1
	p := penalty{
		policy: it.policy, key: part.Key, request: last, from: from, to: from + len(it.rules.bound), index: -1,
		begins: counts(op),
	}
	if op != rule.TakeUpTo { // it would grant no more than the penalty's cost of 0
		start := 0
		if last > 0 {
			start = b.ends[last-1]
		}
		p.index = b.join(store.Charge{Limit: it.policy.penalty, Key: part.Key}) - start
	}
	b.penalties = append(b.penalties, p)
}

// cancelPenalties keeps the batch from beginning penalties.
func (b *batch) cancelPenalties() {
	for i := range b.penalties {
		b.penalties[i].begins = false
	}
}

// applyPenalties carries out the penalties of a batch that the store has answered: it begins those of keys that have exceeded
// their limits, denies those that are kept out, and leaves only the answers of the policies' own limits.
func (b *batch) applyPenalties(ctx context.Context, group string, set *Set, mode Mode) {
	if len(b.penalties) == 0 {
		return
	}
	var peeks, begins []*penalty
	for i := range b.penalties {
		p := &b.penalties[i]
		result := &b.requests[p.request]
		switch {
		case result.Err != nil:
		case p.index >= 0 && !result.Answers[p.index].Allowed:
			p.left = result.Answers[p.index].RetryAfter
		case !p.begins || !exceeds(result.Answers[p.from:p.to]):
		case result.Answers[p.from].Flags.Cached():
			peeks = append(peeks, p) // the denial was remembered from before the penalty, which has probably begun
		default:
			begins = append(begins, p)
		}
	}
	begins = append(begins, set.sendPenalties(ctx, rule.Peek, group, mode, peeks)...)
	set.sendPenalties(ctx, rule.Charge, group, mode, begins)
	for i := len(b.penalties) - 1; i >= 0; i-- {
		p := &b.penalties[i]
		result := &b.requests[p.request]
		if p.index >= 0 {
			result.Charges, result.Answers = result.Charges[:p.index], result.Answers[:p.index]
		}
		if p.left > 0 {
			denyAll(result.Answers[p.from:p.to], p.left)
		}
	}
}

// sendPenalties looks up penalties, by a Peek, or begins them, by a Charge, and records how long they last. It returns those
// that are not in force.
func (s *Set) sendPenalties(ctx context.Context, op rule.Op, group string, mode Mode, all []*penalty) (none []*penalty) {
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
		b.join(charge)
	}
	// The client may have left, and has exceeded its limits all the same.
	ctx, cancel := store.Detach(ctx, s.traits[mode])
	defer cancel()
	b.apply(ctx, group, 0, s.stores[mode])
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

// exceeds reports whether limits denied a request because too much was used: not because it can never be admitted, and
// not because the store could not decide.
func exceeds(own []rule.Answer) bool {
	return slices.ContainsFunc(own, func(a rule.Answer) bool {
		return !a.Allowed && a.RetryAfter != rule.Never && a.Flags&(undecided|rule.FallbackOptimistic) == 0
	})
}

// denyAll turns the answers of a policy's limits into denials.
func denyAll(own []rule.Answer, left rule.Micros) {
	for i := range own {
		a := &own[i]
		a.Allowed, a.Granted, a.Remaining, a.NextAfter = false, 0, 0, 0
		a.RetryAfter, a.ResetAfter = max(a.RetryAfter, left), max(a.ResetAfter, left)
	}
}

// left returns how long the keys of a request's parts are kept out.
func (b *batch) left(request int) (left time.Duration) {
	for i := range b.penalties {
		if p := &b.penalties[i]; p.request == request {
			left = max(left, p.left.Duration())
		}
	}
	return left
}

// isKeptOut reports whether a penalty keeps one of the parts out.
func (r *Request) isKeptOut(ctx context.Context) bool {
	var mode Mode
	var all []penalty
	for i := range r.parts {
		it := &r.parts[i]
		if it.err == nil && it.by == ByLimits && it.policy.penalizes(rule.Peek, it.rules, &it.Part) {
			mode = max(mode, it.policy.mode)
			all = append(all, penalty{policy: it.policy, key: it.Key})
		}
	}
	pointers := make([]*penalty, len(all))
	for i := range all {
		pointers[i] = &all[i]
	}
	return len(r.set.sendPenalties(ctx, rule.Peek, r.Group, mode, pointers)) < len(pointers)
}

// logPenaltyError logs that a penalty could not be looked up or begun, at most once per minute: the request is denied
// nevertheless, by the limits.
func (s *Set) logPenaltyError(p *compiled, err error) {
	const pause = time.Minute
	now := time.Now().UnixNano()
	last := s.penaltyErrorLogged.Load()
	if now-last < int64(pause) || !s.penaltyErrorLogged.CompareAndSwap(last, now) {
		return
	}
	slog.Warn("slidegate: the penalty of a policy could not be looked up or begun", slog.String("policy", p.name), slog.Any("error", err))
}

// resetPenalty ends the penalty of a key.
func (p *compiled) resetPenalty(ctx context.Context, group, key string) error {
	var b batch
	b.begin(rule.Reset)
	b.join(store.Charge{Limit: p.penalty, Key: key})
	b.apply(ctx, group, 0, p.set.stores[p.mode])
	return b.requests[0].Err
}
