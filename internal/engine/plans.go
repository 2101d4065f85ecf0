package engine

import (
	"errors"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
)

// addPlans compiles the plans that a policy lists.
func (p *compiledPolicy) addPlans(plans []policy.Plan) *Error {
	for _, given := range plans {
		r, err := &bundle{}, error(nil)
		switch {
		case given.Name == "":
			err = errors.New("has no name, so that no request could select it; give it one")
		case given.Refused:
			err = errors.New("admits nothing; return policy.Refused for such requests instead of listing it")
		case p.named[given.Name] != nil:
			err = errors.New("duplicate plan; give each its own name")
		case !given.Unlimited:
			r, err = p.bundle(given.Limits)
		}
		if err != nil {
			return &Error{Option: "plans", Err: fmt.Errorf("plan %q: %w", given.Name, err)}
		}
		r.plan, r.lasts = given.Name, true
		if p.named == nil {
			p.named = map[string]*bundle{}
		}
		p.named[given.Name] = r
		p.ordered = append(p.ordered, r)
	}
	return nil
}

// routePlan finds the rules of a plan other than the policy's own limits.
func (p *compiledPolicy) routePlan(plan *policy.Plan) (*bundle, policy.By, error) {
	switch {
	case plan.Unlimited:
		return nil, policy.ByUnlimited, nil
	case plan.Limits == nil:
		r := p.named[plan.Name]
		switch {
		case r == nil:
			return nil, policy.ByLimits, fmt.Errorf("policy %q: %w: the part names a plan that is not in Plans; see Named", p.name, slidegate.ErrUnsupported)
		case r.limiter == nil:
			return r, policy.ByUnlimited, nil
		}
		return r, policy.ByLimits, nil
	}
	r, err := p.planBundle(plan.Limits)
	return r, policy.ByLimits, err
}

// errNoPlan reports a plan made of an empty list. Such a client is hardly meant to be unlimited.
var errNoPlan = errors.New("a plan without limits; use policy.Unlimited or policy.Refused instead")

// planBundle returns the rules for the limits of a plan.
func (p *compiledPolicy) planBundle(limits []slidegate.Limit) (*bundle, error) {
	if len(limits) == 0 {
		return nil, fmt.Errorf("policy %q: %w: %w", p.name, slidegate.ErrLimit, errNoPlan)
	}
	id, short := planIDOf(limits)
	if short {
		if r := p.plans.get(id); r != nil {
			return r, nil
		}
	}
	r, err := p.bundle(limits)
	if err != nil {
		return nil, fmt.Errorf("policy %q: plan: %w", p.name, err)
	}
	if short {
		r = p.plans.put(id, r)
	}
	return r, nil
}
