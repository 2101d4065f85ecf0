package engine

import (
	"context"

	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// reset is Reset as a decision, whatever the lists contain.
func (p *compiledPolicy) reset(ctx context.Context, part *Part, d *policy.Decision) {
	of := p.bundleFor(part.Key)
	if r := p.rulingOf(part.Key); r != nil {
		of = r.bundle
	}
	if of.limiter == nil {
		of = p.own
	}
	err := p.set.Reset(ctx, "", *part)
	d.Allowed = err == nil
	p.complete(ctx, rule.Reset, of, part, d, err)
}

// Reset resets the usage of the keys of these parts under their policies: of the policy's own limits, of the override
// for the key and the ruling about it, of the part's plan and of every plan that the Set has seen, and
// of the penalty. It resets them one at a time, and an error may mean that only some were reset.
func (s *Set) Reset(ctx context.Context, group string, parts ...Part) error {
	for i := range parts {
		if err := s.forget(ctx, group, &parts[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) forget(ctx context.Context, group string, part *Part) error {
	p := s.policies[part.Policy]
	limits := map[string]*store.Limit{} // by prefix: different limits of one prefix are one address
	add := func(r *bundle) {
		for _, limit := range r.bound {
			limits[limit.Prefix()] = limit
		}
	}
	add(p.own)
	p.eachBundle(part.Key, add)
	if p.penalty != nil {
		limits[p.penalty.Prefix()] = p.penalty
	}
	p.plans.each(add)
	if part.Plan.Limits != nil {
		r, err := p.planBundle(part.Plan.Limits)
		if err != nil {
			return err
		}
		add(r)
	}
	var all batch
	for _, limit := range limits {
		all.begin(rule.Reset)
		all.add(store.Charge{Limit: limit, Key: part.Key})
	}
	all.apply(ctx, group, 0, s.store)
	for i := range all.requests {
		if err := all.requests[i].Err; err != nil {
			return err
		}
	}
	return nil
}
