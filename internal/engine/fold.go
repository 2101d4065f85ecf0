package engine

import (
	"context"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// foldEach makes the decisions of parts that are decided independently.
func (t *Transaction) foldEach(ctx context.Context, decisions []policy.Decision) {
	for i := range t.plan.entries {
		e := &t.plan.entries[i]
		t.foldAlone(ctx, e, &decisions[e.part])
	}
}

// offer makes own the decision d on a request that no limits decide, if nothing more informative was offered.
func (t *Transaction) offer(d, own *policy.Decision, worth worth) {
	if t.worth < worth && !t.plan.hasJoint() {
		*d, t.worth = *own, worth
	}
}

// foldListed makes the decisions of the parts that no limits apply to.
func (t *Transaction) foldListed(d *policy.Decision) {
	for i := range t.parts {
		if it := &t.parts[i]; it.by != policy.ByLimits && !it.policy.shadow {
			var own policy.Decision
			it.policy.setListed(t.plan.op, it.by, it.bundle, it.Part, &own)
			t.addDecided(&own)
			t.offer(d, &own, worthList)
		}
	}
}

// foldJoint makes the decision of the policies that decide. A policy that would have admitted what another refused was not
// charged, and is not counted.
func (t *Transaction) foldJoint(ctx context.Context, d *policy.Decision) {
	p := &t.plan
	joint := p.result(&p.entries[0])
	first, mode := t.deciding()
	d.Policy, d.Plan = first.policy.name, first.bundle.plan
	all := t.jointBundle()
	d.Limits, d.Note = all.limits, all.note
	if joint.Err != nil {
		fail(ctx, d, mode, first.cost(), joint.Err)
	} else {
		d.Decision = adapter.Combine(joint.Charges, joint.Answers)
		d.Penalty = p.longestKept(0)
		t.set.explain(d)
	}
	if d.Refused = refuses(d); failed(d) {
		t.foldFailed(d)
		return
	}
	index, allowed := int(d.Index), d.Allowed
	for i := range p.entries {
		e := &p.entries[i]
		it := &t.parts[e.part]
		switch {
		case e.role <= checks:
			if e.from <= index && index < e.from+len(e.bundle.bound) {
				d.Policy, d.Plan = it.policy.name, e.bundle.plan
			}
			it.refused = slices.ContainsFunc(p.answers(e), isRefusal)
			if counts(p.op) && (it.refused && !t.trying || allowed) {
				t.countJoint(it, e, Outcome{Refused: it.refused, Penalized: e.kept > 0}, &d.Decision)
			}
			if allowed && e.role == decides && counts(p.op) {
				it.policy.noteAnswers(e.bundle, it.Key, t.plan.answers(e))
			}
			t.addJoint(e, d)
		case e.role == adds:
			if counts(p.op) && allowed {
				t.countJoint(it, e, Outcome{}, &d.Decision)
			}
			t.addAnswers(e, d)
		}
	}
}

func isRefusal(a rule.Answer) bool { return !a.Allowed }

// foldFailed counts and records a request that no limit could decide, for all policies that should have.
func (t *Transaction) foldFailed(d *policy.Decision) {
	for i := range t.parts {
		it := &t.parts[i]
		if !it.decides() {
			continue
		}
		if counts(t.plan.op) && !d.Ended {
			it.policy.count(it.Key, Outcome{
				Failed: true, Refused: !d.Allowed, Fallback: d.Flags&answering.Fallbacks != 0, Method: it.Method, Path: it.Path,
			})
		}
		if !d.Ended && !d.Mistake { // otherwise it is about the whole request
			own := *d
			own.Policy, own.Plan, own.Limits, own.Note = it.policy.name, it.bundle.plan, it.bundle.limits, it.bundle.note
			t.addDecided(&own)
		}
	}
}

// addJoint records the decision of one of the policies that decide together, whose joint decision is d: it has the part's own
// limits and answers.
func (t *Transaction) addJoint(e *entry, d *policy.Decision) {
	if !t.Record {
		return
	}
	own := *d
	own.Policy, own.Plan = t.parts[e.part].policy.name, e.bundle.plan
	own.Limits, own.Note = e.bundle.limits, e.bundle.note
	own.Decision = t.plan.decision(e)
	if own.Refused = refuses(&own); !own.Refused {
		own.Penalty = 0
	}
	t.addDecided(&own)
}

// addAnswers adds to a decision the answers of a part that only peeked, if the store answered.
func (t *Transaction) addAnswers(e *entry, d *policy.Decision) {
	if !t.plan.hasAnswers(e) {
		return
	}
	if d.Answers == nil { // there is a single limit
		d.Answers = slices.Clone(t.plan.batch.requests[0].Answers)
	}
	d.Answers = append(d.Answers, t.plan.answers(e)...)
}

// hasAnswers reports whether the answers to an entry are in the decision.
func (p *plan) hasAnswers(e *entry) bool {
	return e.role <= checks || e.role == adds && p.result(e).Err == nil
}

// decision returns the decision of the limits of one entry, or the zero value if there is none.
func (p *plan) decision(e *entry) (d slidegate.Decision) {
	result := p.result(e)
	if result.Err == nil {
		to := e.from + len(e.bundle.bound)
		d = adapter.Combine(result.Charges[e.from:to], result.Answers[e.from:to])
	}
	return d
}

// longestKept returns how long the keys of a request are kept out.
func (p *plan) longestKept(request int) (kept time.Duration) {
	for i := range p.entries {
		if e := &p.entries[i]; e.request == request {
			kept = max(kept, e.kept.Duration())
		}
	}
	return kept
}

// deciding returns the first part that decides, and the strictest failure mode of all that do.
func (t *Transaction) deciding() (first *part, mode store.Mode) {
	for i := range t.parts {
		it := &t.parts[i]
		if !it.decides() {
			continue
		}
		if first == nil {
			first = it
		}
		mode = max(mode, it.policy.mode)
	}
	return first, mode
}

func (t *Transaction) addDecided(d *policy.Decision) {
	if t.Record {
		t.decided = append(t.decided, *d)
	}
}

func (t *Transaction) addTried(d *policy.Decision) {
	if t.Record {
		t.tried = append(t.tried, *d)
	}
}

// foldAlone makes and counts the decision of a part that is in a request of its own.
func (t *Transaction) foldAlone(ctx context.Context, e *entry, d *policy.Decision) {
	it, result := &t.parts[e.part], t.plan.result(e)
	if result.Err == nil {
		d.Decision, d.Penalty = adapter.Combine(result.Charges, result.Answers), e.kept.Duration()
	}
	it.policy.complete(ctx, t.plan.op, e.bundle, it.Part, d, result.Err)
}

// jointBundle returns the limits, and the note, of all policies that decide together, followed by those that only peek: the
// order of the answers in the decision.
func (t *Transaction) jointBundle() *bundle {
	var id jointID
	n, lasts := 0, true
	t.eachWithAnswers(func(one *bundle) {
		if n < maxJoint {
			id[n] = one
		}
		lasts = lasts && one.lasts // limits that were compiled for this request are never seen again
		n++
	})
	if n == 1 {
		return id[0]
	}
	lasts = lasts && n <= maxJoint
	if lasts {
		if known := t.set.joints.get(id); known != nil {
			return known
		}
	}
	made := &bundle{}
	t.eachWithAnswers(func(one *bundle) { made.limits = append(made.limits, one.limits...) })
	if t.set.opts.Prepare != nil {
		made.note, _ = t.set.opts.Prepare(made.limits) // limits that could be prepared one by one can be prepared together
	}
	if lasts {
		made = t.set.joints.put(id, made)
	}
	return made
}

// eachWithAnswers calls use with the limits whose answers are in the decision, in order.
func (t *Transaction) eachWithAnswers(use func(*bundle)) {
	for i := range t.plan.entries {
		if e := &t.plan.entries[i]; t.plan.hasAnswers(e) {
			use(e.bundle)
		}
	}
}
