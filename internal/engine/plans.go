package engine

import (
	"errors"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
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
	r, err := p.plan(limits)
	if err != nil {
		return nil, fmt.Errorf("policy %q: plan: %w", p.name, err)
	}
	if short {
		r = p.plans.put(id, r)
	}
	return r, nil
}

// plan compiles limits that replace the policy's own.
func (p *compiledPolicy) plan(limits []slidegate.Limit) (*bundle, error) {
	r, err := p.bundle(limits)
	if apart := p.separateLimiter(limits, err); apart != nil {
		return p.bundleOf(apart, p.withPolicyName(limits))
	}
	return r, err
}

// separateLimiter returns a limiter for a plan whose limits cannot all count as the policy's own do, which err reports:
// a sliding log does not accept 20,000 units, for example. Those limits use their own default algorithm, and have their
// own counts. It returns nil if that does not help. In a file such a limit is an error, but a plan is compiled for a
// request, which must be decided.
func (p *compiledPolicy) separateLimiter(limits []slidegate.Limit, err error) *slidegate.Limiter {
	if err == nil || p.set.checkNames(limits) != nil {
		return nil
	}
	resolved := p.withPolicyName(limits)
	for i := range resolved {
		if _, err := p.own.limiter.With(resolved[i]); err == nil {
			continue
		}
		alone, err := adapter.Bind("", resolved[i])
		if err != nil || resolved[i].Algorithm != rule.DefaultAlgorithm {
			return nil
		}
		resolved[i].Algorithm = alone.Rule().Algorithm
	}
	base, err := p.own.limiter.With(resolved...)
	if err != nil {
		return nil
	}
	apart, err := base.With(p.withPolicyName(limits)...) // it has the same algorithms, and the labels as written
	if err != nil {
		return nil
	}
	return apart
}
