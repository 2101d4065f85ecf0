package policy

import (
	"context"
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// checkFree checks whether the parts that cost nothing would be admitted at one unit, before the others take anything, and
// reports whether it has decided the request: it is denied, or could not be checked. It is a call to the store of its own,
// which is made only for a request that also takes something: an operation of the store is the same for all of its charges.
// Shadow policies and candidates do not see a request that is denied here.
func (r *Request) checkFree(ctx context.Context, op rule.Op, v *Verdict) bool {
	if r.onlyPeeks() || !slices.ContainsFunc(r.parts, func(it part) bool { return it.isFree() }) {
		return false
	}
	r.mode = 0
	r.batch.begin(rule.Peek)
	for i := range r.parts {
		it := &r.parts[i]
		if it.decides() {
			r.mode = max(r.mode, it.policy.mode)
		}
		if !it.isFree() {
			continue
		}
		it.request, it.from = 0, len(r.batch.charges)
		r.batch.add(it.rules.bound, &it.Part)
		for j := it.from; j < len(r.batch.charges); j++ {
			if isSlots(r.batch.charges[j].Limit) {
				r.batch.charges[j].Cost = 0 // to find none free is no reason to deny yet: see awaitSlots
			}
		}
	}
	for i := range r.parts {
		if it := &r.parts[i]; it.isFree() {
			r.batch.penalize(rule.Peek, &it.target, &it.Part, it.from)
		}
	}
	if err := r.check(); err != nil {
		r.parts[0].policy.setMistake(v, err)
		return true
	}
	r.apply(ctx, rule.Peek)
	if live := &r.batch.requests[0]; live.Err == nil && !slices.ContainsFunc(live.Answers, func(a rule.Answer) bool { return !a.Allowed }) {
		for i := range r.parts {
			r.parts[i].request, r.parts[i].from = -1, 0
		}
		r.batch.reset()
		return false
	}
	r.combine(ctx, op, v)
	r.admitted = !v.Refused
	return true
}

// isFree reports whether the part decides and charges no units, neither now nor, by its Request, later.
func (it *part) isFree() bool {
	return it.decides() && it.Cost == 0 && !it.later && slices.ContainsFunc(it.rules.bound, isRate)
}
