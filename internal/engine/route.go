package engine

import (
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// routeAll finds what decides each of the given parts.
func (t *Transaction) routeAll(op rule.Op, given []Part) {
	if cap(t.parts) < len(given) {
		t.parts = append(t.parts[:cap(t.parts)], make([]part, len(given)-cap(t.parts))...)
	}
	t.parts = t.parts[:len(given)]
	for i := range given {
		it := &t.parts[i]
		it.Part, it.refused = &given[i], false
		if it.Policy < 0 {
			it.by = policy.ByUnlimited
			continue
		}
		it.policy = t.set.policies[it.Policy]
		it.slots, it.holds = false, false
		it.later = it.Hold && it.Cost == 0 && t.Slots == SlotsHeld
		it.bundle, it.by, it.err = it.policy.route(op, it.Part)
		if it.err == nil && it.by == policy.ByLimits {
			it.err = it.policy.checkSlots(op, it.bundle, t.Slots)
			it.slots = it.err == nil && it.bundle.slots && op == rule.Take
			it.holds = it.bundle.holds && op == rule.Take && (it.Hold || t.Slots != SlotsNone)
		}
	}
}

// route finds what decides a part: a ruling, a list, or otherwise the returned limits. Its order is the precedence of rulings, lists,
// overrides and plans. An error means an invalid plan.
func (p *compiledPolicy) route(op rule.Op, part *Part) (*bundle, policy.By, error) {
	if p.isSimple() && part.usesOwnLimits() {
		return p.own, policy.ByLimits, nil
	}
	if part.Err != nil {
		return nil, policy.ByLimits, &partError{part.Err}
	}
	// Refunds and charges of units already used belong to requests from before a ruling that refuses everything.
	if r := p.rulingOf(part.Key); r != nil && (r.by != policy.ByRuling || counts(op) || op == rule.Peek) {
		return r.bundle, r.by, nil
	}
	switch {
	case p.refuse.has(part.Key, part.Address):
		return nil, policy.ByBlockList, nil
	case part.Plan.Refused && p.bundleFor(part.Key) == p.own:
		return nil, policy.ByBlockList, nil
	case p.allow.has(part.Key, part.Address):
		return nil, policy.ByAllowList, nil
	}
	r := p.bundleFor(part.Key)
	if r == p.own && !part.Plan.IsZero() {
		return p.routePlan(&part.Plan)
	}
	if r.limiter == nil {
		return r, policy.ByUnlimited, nil
	}
	return r, policy.ByLimits, nil
}

// isSimple reports whether the policy's own limits apply to all keys, unless a part selects others.
func (p *compiledPolicy) isSimple() bool { return p.simple && p.rulings.Load() == nil }

// bundleFor returns the limits that the policy itself has for a key.
func (p *compiledPolicy) bundleFor(key string) *bundle {
	if p.overrides.IsEmpty() {
		return p.own
	}
	found := p.own
	p.overrides.Each(key, func(r *bundle, _ int) bool {
		if found == p.own || r.override < found.override {
			found = r
		}
		return true
	})
	return found
}

// eachBundle calls use with the limits that a key may have been charged to: those that the policy has for it, those of plans
// that the policy lists, since it is unknown which one the key had, and those of the ruling about it.
func (p *compiledPolicy) eachBundle(key string, use func(*bundle)) {
	use(p.bundleFor(key))
	for _, b := range p.named {
		use(b)
	}
	if r := p.rulingOf(key); r != nil {
		use(r.bundle)
	}
}

// Route returns what would decide a part, without calling the store: the index of the override that fits, or -1, and the
// entry of the allow or block list, as it is written there.
func (s *Set) Route(part Part) (by policy.By, override int, entry string) {
	p := s.policies[part.Policy]
	r, by, _ := p.route(rule.Peek, &part)
	override = -1
	if r != nil {
		override = r.override - 1
	}
	switch by {
	case policy.ByBlockList:
		entry = p.refuse.entry(part.Key, part.Address)
	case policy.ByAllowList:
		entry = p.allow.entry(part.Key, part.Address)
	}
	return by, override, entry
}

// Overridden reports whether a policy has an override or a ruling for a key, so that no plan decides.
func (s *Set) Overridden(policy int, key string) bool {
	p := s.policies[policy]
	return p.bundleFor(key) != p.own || p.rulingOf(key) != nil
}

// LimitsOf returns the limits that currently apply to a key under a policy: those of a ruling, an override or the
// policy. It returns nil for a key without limits, and for one that a ruling refuses. It ignores lists and plans.
func (s *Set) LimitsOf(policy int, key string) []slidegate.Limit {
	p := s.policies[policy]
	if r := p.rulingOf(key); r != nil {
		return r.limits
	}
	return p.bundleFor(key).limits
}
