package policy

import (
	"errors"
	"fmt"

	"github.com/slidegate/slidegate"
)

// NamedPlan is a plan that a policy lists: New checks its limits, stores reserve capacity for them, and a reset of a
// key resets them too. Requests select it by Named.
type NamedPlan struct {
	Name      string            // as in verdicts
	Limits    []slidegate.Limit // empty if Unlimited; see Limits for how they count
	Unlimited bool
}

// Named returns the plan of that name among the policy's own Plans. An unknown name is a mistake: the request is then
// denied.
func Named(name string) Plan { return Plan{kind: planNamed, name: name} }

// Name returns the name of a plan made by Named, and is empty for others.
func (p Plan) Name() string { return p.name }

// addPlans compiles the plans that a policy lists.
func (p *compiled) addPlans(plans []NamedPlan) *Error {
	for _, given := range plans {
		r, err := &rules{}, error(nil)
		if p.named[given.Name] != nil {
			err = errors.New("duplicate plan; give each its own name")
		} else if !given.Unlimited {
			r, err = p.rules(given.Limits)
		}
		if err != nil {
			return &Error{Option: "plans", Err: fmt.Errorf("plan %q: %w", given.Name, err)}
		}
		r.plan, r.lasts = given.Name, true
		if p.named == nil {
			p.named = map[string]*rules{}
		}
		p.named[given.Name] = r
		p.ordered = append(p.ordered, r)
	}
	return nil
}

// routePlan finds the rules of a plan other than the policy's own limits.
func (p *compiled) routePlan(plan *Plan) (*rules, By, error) {
	switch plan.kind {
	case planUnlimited:
		return nil, ByUnlimited, nil
	case planNamed:
		r := p.named[plan.name]
		switch {
		case r == nil:
			return nil, ByLimits, fmt.Errorf("policy %q: %w: the part names a plan that is not in Plans; see Named", p.name, slidegate.ErrUnsupported)
		case r.limiter == nil:
			return r, ByUnlimited, nil
		}
		return r, ByLimits, nil
	}
	r, err := p.planRules(plan.limits)
	return r, ByLimits, err
}

// planName returns the name of the plan that r belongs to, or "" if there is none or r is nil.
func (r *rules) planName() string {
	if r == nil {
		return ""
	}
	return r.plan
}
