package engine

import "context"

// feature is something that a policy can have beside limits. Each is in a file of its own, and knows no other: they have only the
// plan in common. A function that a feature does not need is nil.
type feature struct {
	// before adds charges to the plan of a transaction, or changes them.
	before func(ctx context.Context, t *Transaction)
	// answered changes what the store has answered.
	answered func(ctx context.Context, t *Transaction)
	// after reports and counts what the answers mean. The decision of the limits is made.
	after func(ctx context.Context, t *Transaction)
	// of reports whether a policy has the feature; nil means that all have it. A Set does without features that none of its policies has.
	of func(p *compiledPolicy) bool
	// inChecks makes the feature act also where parts that cost nothing are checked first; see checkFree.
	inChecks bool
}

// acts reports whether the feature acts in a plan.
func (f *feature) acts(p *plan) bool { return f.inChecks || !p.isCheck() }

// features are all features in the order in which they act. Hold precedes penalty, because it may call the store again.
// Rulings, lists, overrides and plans decide before there is a plan which limits apply to a part; their order is in route.
var features = [...]feature{
	{before: peekFree},
	{before: tryShadows, after: reportShadows, of: func(p *compiledPolicy) bool { return p.shadow }},
	{before: identifyHold, answered: awaitSlots, after: keepTaken},
	{before: addPenalties, answered: applyPenalties, of: func(p *compiledPolicy) bool { return p.penalty != nil }, inChecks: true},
}
