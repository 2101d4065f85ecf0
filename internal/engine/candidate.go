package engine

import (
	"context"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// candidateSuffix is appended to a namespace to make the namespace of candidates.
const candidateSuffix = "/candidate"

// hasCandidate reports whether the candidate is counted beside these limits: it is, for the same keys as the policy's own
// limits, and for every op but a peek.
func (p *compiledPolicy) hasCandidate(op rule.Op, b *bundle) bool {
	return p.candidate != nil && b.whole() == p.own && op != rule.Peek
}

// candidateError returns why the policy's candidate cannot be decided, or nil: nothing would release its slots. A
// reservation does not include a candidate.
func (p *compiledPolicy) candidateError(op rule.Op, slots Slots) error {
	if slots == SlotsReserved {
		slots = SlotsNone
	}
	return p.checkSlots(op, p.candidate, slots)
}

// tryCandidates adds the candidates, each in a request of its own.
func tryCandidates(_ context.Context, t *Transaction) {
	if t.waited {
		return
	}
	op := t.plan.op
	for i := range t.parts {
		it := &t.parts[i]
		if it.by != policy.ByLimits || it.err != nil || !it.policy.hasCandidate(op, it.bundle) {
			continue
		}
		if c := it.policy.candidate; !(it.peeks() && c.slots) && it.policy.candidateError(op, t.Slots) == nil {
			if it.policy.classes != nil {
				if part, err := it.policy.classed(c, it.Class); err == nil {
					c = part
				}
			}
			t.plan.begin(it.op(op))
			t.plan.add(i, c, candidate)
		}
	}
}

// reportCandidates counts and reports what the candidates would have decided. There is nothing to compare where the store did not
// answer.
func reportCandidates(_ context.Context, t *Transaction) {
	if t.waited || !counts(t.plan.op) {
		return
	}
	for i := range t.plan.entries {
		if e := &t.plan.entries[i]; e.role == candidate && t.parts[e.part].said != saidNothing {
			t.reportCandidate(&t.parts[e.part], e)
		}
	}
	for i := range t.parts {
		it := &t.parts[i]
		if !t.Record || it.said == saidNothing || !it.policy.hasCandidate(t.plan.op, it.bundle) {
			continue
		}
		if err := it.policy.candidateError(t.plan.op, t.Slots); err != nil {
			t.addTried(&policy.Decision{Policy: it.policy.name, Candidate: true, Err: err, Mistake: true})
		}
	}
}

func (t *Transaction) reportCandidate(it *part, e *entry) {
	result := t.plan.result(e)
	if result.Err != nil || result.Answers[0].Flags&answering.Fallbacks != 0 {
		return
	}
	_, allowed := answering.Deciding(result.Answers)
	it.policy.count(it.Key, Outcome{Candidate: true, Refused: !allowed, LiveRefused: it.said == saidNo})
	if t.Record {
		t.addTried(&policy.Decision{
			Policy: it.policy.name, Candidate: true, Decision: t.plan.decision(e), Limits: e.bundle.limits, Note: e.bundle.note,
		})
	}
}
