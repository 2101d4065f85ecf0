package memstore

import (
	"github.com/slidegate/slidegate/rule"

	"github.com/slidegate/slidegate/internal/quick"
)

// Loading a log into a rule.State is avoided if possible: it may have thousands of units, of which a decision needs two.
// Takes over several limits decide about logs, and about the states of limits that name no algorithm, as takes over one limit do, in
// a private copy of the slot's line. This repeats the rule for several limits of rule.Decide, and a test keeps the two equal.

// canTakeLines reports whether a take over several limits can be decided without loading such states: all keys have slots, and
// refusals do not count. In a folder, they have tags of their own: such a take is recorded as what it is under its limit, not by its outcome.
func (j *job) canTakeLines() bool {
	if j.op != rule.Take || len(j.claims) == 1 || j.hold || j.memory > 0 {
		return false
	}
	copied := 0
	for i := range j.claims {
		c := &j.claims[i]
		if c.slot < 0 || len(c.state.Holds) > 0 || c.plan.limit.Algorithm == rule.InFlight || c.isCopied() && c.plan.limit.CountRefused {
			return false
		}
		if c.isCopied() {
			if j.store.keeper != nil && c.plan.notes == nil {
				return false
			}
			copied++
		}
	}
	return copied > 0
}

// isCopied reports whether the claim can be decided in a copy of its slot.
func (c *claim) isCopied() bool {
	algorithm := c.plan.limit.Algorithm
	return algorithm == rule.SlidingLog || algorithm == rule.DefaultAlgorithm
}

// takeLines decides the job, or changes nothing and returns false if one of the copied slots is not a common case.
func (j *job) takeLines(now rule.Micros, answers []rule.Answer) bool {
	j.now = now
	all := true
	for i := range j.claims {
		c := &j.claims[i]
		if !c.look(j, i, &answers[i]) {
			return false
		}
		all = all && answers[i].Allowed
	}
	for i := range j.claims {
		c, a := &j.claims[i], &answers[i]
		if all == a.Allowed && (!all || c.cost > 0) { // otherwise look's answer stands
			c.carryOut(j, i, a)
		}
	}
	return true
}

// look fills a with the answer for a claim that admits but is not charged. It is not ok if the claim needs the slow path.
func (c *claim) look(j *job, i int, a *rule.Answer) (ok bool) {
	if !c.isCopied() {
		limit := c.plan.limit
		room := limit.Capacity() - limit.Used(&c.state, j.now)
		*a = limit.Answer(&c.state, j.now, c.cost, 0, c.cost <= room && c.cost <= limit.Capacity(), false)
		return true
	}
	l := c.form.(*linesForm).at(c.page, c.slot)
	for w := range l {
		c.line[w].Store(l[w].Load())
	}
	c.line[controlWord].Store(c.word)
	// The remaining units that a peek returns are what is left, unless more is used than the quota.
	outcome, remaining, next, resetAfter, at := c.takeLine(j, 0)
	if outcome == quick.Undecided {
		return false
	}
	*a = rule.Answer{Allowed: outcome == quick.Admitted && c.cost <= remaining, Remaining: remaining, ResetAfter: resetAfter, At: at}
	if a.Allowed {
		a.NextAfter = next
	}
	return true
}

// takeLine decides about the copy of the claim's line.
func (c *claim) takeLine(j *job, cost int64) (outcome quick.Outcome, remaining int64, after, resetAfter, at rule.Micros) {
	return c.form.(*linesForm).take(&c.line, c.h, c.plan.limit, &j.fixed, cost, nil)
}

// carryOut charges a claim if all limits admit the request, and fills in the refusal otherwise.
func (c *claim) carryOut(j *job, i int, a *rule.Answer) {
	if !c.isCopied() {
		*a, j.items[i].Changed = c.plan.limit.TakeOne(&c.state, j.now, c.cost)
		return
	}
	outcome, remaining, after, resetAfter, at := c.takeLine(j, c.cost)
	switch outcome {
	case quick.Admitted:
		*a = rule.Answer{Allowed: true, Granted: c.cost, Remaining: remaining, NextAfter: after, ResetAfter: resetAfter, At: at}
		c.copied = true
	case quick.Refused:
		*a = rule.Answer{Remaining: remaining, RetryAfter: after, ResetAfter: resetAfter, At: at}
	default: // the cost exceeds the quota, or the slab has no line
		c.loadState()
		*a, j.items[i].Changed = c.plan.limit.TakeOne(&c.state, j.now, c.cost)
	}
}

// putLine writes back the copy of the claim's line, and ends the claim.
func (c *claim) putLine() {
	l := c.form.(*linesForm).at(c.page, c.slot)
	for w := range l {
		if w != controlWord && w != hashWord {
			l.change(w, c.line[w].Load())
		}
	}
	l[controlWord].Store(c.line[controlWord].Load())
}
