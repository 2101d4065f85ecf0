package engine

import (
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Transaction is a request under several policies, or one that is settled afterwards: Add its parts, Decide, and End it.
// All policies admit and all are charged, or none is. Shadow policies are decided in the same call to
// the store, each independently, so that their refusals do not keep the others from charging. Begin returns a Transaction;
// it is not safe for concurrent use.
type Transaction struct {
	// Group is the group of the request's charges; see slidegate.Claims.InGroup.
	Group string
	// Record makes Decided and Trials return the decisions of single policies.
	Record bool
	// Slots defines who releases the slots that the request takes from in-flight limits. With the zero value, taking
	// from such a limit is a mistake.
	Slots Slots

	set     *Set
	given   []Part
	parts   []part
	plan    plan
	decided []policy.Decision
	tried   []policy.Decision
	worth   worth           // of what is offered as the decision if no limits decide; 0 if nothing is
	turn    policy.Decision // of a request in line: not d, which would then always be allocated
	trying  bool            // it is in line, and a refusal is not final
	waited  bool            // a waiting client decides several times, and shadow policies only the first time

	penalties []penalty // of the plan
	held      held
}

// worth is how informative the decision of a single part is, for a request that no limits decide.
type worth uint8

const (
	worthList    worth = iota + 1 // by a list, or by a policy that could not decide
	worthAllowed                  // by a policy in shadow mode
	worthRefused                  // the same, and it would have refused
)

// plan lists what a transaction asks of the store: first the parts that decide, in one request, and then the others.
// Its memory is reused.
type plan struct {
	op      rule.Op   // what the caller asks for
	each    bool      // the parts are decided independently, each in a request of its own
	ops     []rule.Op // of each request to the store
	entries []entry   // in the order of their requests
	id      rule.ID   // identifies what is taken, so that it can be settled; 0 if nothing is
	batch   batch

	cancelled <-chan struct{} // closed when what was taken for a client that has left is cancelled; nil if it is still there
}

// entry is a bundle of limits that is asked about one part.
type entry struct {
	part    int // index of the part
	bundle  *bundle
	role    role
	request int         // index of its request
	from    int         // where its answers begin in the request, as soon as it is sent
	kept    rule.Micros // how long the key is kept out, whatever its limits answer
}

// role is what the answers to an entry are for.
type role uint8

const (
	decides role = iota // together with others, in the first request
	checks              // as decides, before anything is taken: that no slot is free is no reason to refuse yet
	adds                // to the answers of those that decide
	shadow              // of a policy in shadow mode
)

// part is a Part that is being decided.
type part struct {
	*Part
	policy  *compiledPolicy
	bundle  *bundle // the limits that apply to it, if by is policy.ByLimits
	by      policy.By
	err     error // of an invalid plan
	refused bool  // its limits refuse the request

	actual  int64 // the actual cost, if it is settled
	settled bool
}

// decides reports whether the limits of the part take part in the decision.
func (it *part) decides() bool { return it.by == policy.ByLimits && !it.policy.shadow }

// reset empties the plan, for an op.
func (p *plan) reset(op rule.Op) {
	clear(p.entries)
	p.ops = p.ops[:0] // field by field, which writes only the lengths
	p.entries = p.entries[:0]
	p.batch.reset()
	p.op, p.each, p.id, p.cancelled = op, false, 0, nil
}

// begin begins a request to the store.
func (p *plan) begin(op rule.Op) { p.ops = append(p.ops, op) }

// add adds a bundle to the last request.
func (p *plan) add(part int, b *bundle, role role) {
	p.entries = append(p.entries, entry{part: part, bundle: b, role: role, request: len(p.ops) - 1})
}

// hasJoint reports whether there are parts that decide; they are the first request.
func (p *plan) hasJoint() bool { return len(p.entries) > 0 && p.entries[0].role <= checks }

// isCheck reports whether the plan only checks parts that cost nothing; see checkFree.
func (p *plan) isCheck() bool { return len(p.entries) > 0 && p.entries[0].role == checks }

// shadowOf returns what is asked about a part of a policy in shadow mode, or nil.
func (p *plan) shadowOf(part int) *entry {
	for i := range p.entries {
		if e := &p.entries[i]; e.part == part && e.role == shadow {
			return e
		}
	}
	return nil
}

// result returns the request of an entry, with its error.
func (p *plan) result(e *entry) *store.Request { return &p.batch.requests[e.request] }

// answers returns the answers to an entry.
func (p *plan) answers(e *entry) []rule.Answer {
	return p.result(e).Answers[e.from : e.from+len(e.bundle.bound)]
}

// list lists the charges of the parts that decide. A part that takes nothing is left out where others take something; see
// peekFree.
func (t *Transaction) list(op rule.Op) {
	t.plan.reset(op)
	joint := op
	if counts(op) && t.onlyPeeks() {
		joint = rule.Peek
	}
	for i := range t.parts {
		it := &t.parts[i]
		if !it.decides() || it.peeks() && counts(joint) {
			continue
		}
		if len(t.plan.ops) == 0 {
			t.plan.begin(joint)
		}
		t.plan.add(i, it.bundle, decides)
	}
}

// listEach lists the charges of parts that are decided independently, whether or not their policy is in shadow mode.
func (t *Transaction) listEach(op rule.Op) {
	t.plan.reset(op)
	t.plan.each = true
	for i := range t.parts {
		if it := &t.parts[i]; it.by == policy.ByLimits && it.err == nil {
			t.plan.begin(it.op(op))
			t.plan.add(i, it.bundle, decides)
		}
	}
}

// onlyPeeks reports whether all deciding parts are peeks.
func (t *Transaction) onlyPeeks() bool {
	for i := range t.parts {
		if it := &t.parts[i]; it.decides() && !it.peeks() {
			return false
		}
	}
	return true
}
