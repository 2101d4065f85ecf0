package engine

import (
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// A part that costs nothing is refused as if it cost one unit. Where other parts of the same request take something, it needs a
// call to the store of its own, since an operation of the store is the same for all of its charges: checkFree makes it before
// anything is taken.

// listFree lists the charges that check the parts that cost nothing, and reports whether there are any beside parts that take
// something.
func (t *Transaction) listFree(op rule.Op) (found bool) {
	if t.onlyPeeks() {
		return false
	}
	for i := range t.parts {
		it := &t.parts[i]
		if !it.isFree() {
			continue
		}
		if !found {
			t.plan.reset(op)
			t.plan.begin(rule.Peek)
			found = true
		}
		t.plan.add(i, it.bundle, checks)
	}
	return found
}

// isFree reports whether the part decides and charges no units, neither now nor, by its Transaction, later.
func (it *part) isFree() bool {
	return it.decides() && it.Cost == 0 && !it.later && slices.ContainsFunc(it.bundle.bound, isRate)
}

// peekFree adds the parts that take nothing where others do, so that the decision has their answers too.
func (t *Transaction) peekFree() {
	if !t.plan.hasJoint() || !counts(t.plan.ops[0]) {
		return
	}
	for i := range t.parts {
		if it := &t.parts[i]; it.decides() && it.peeks() {
			t.plan.begin(rule.Peek)
			t.plan.add(i, it.bundle, adds)
		}
	}
}
