package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// errUnanswered is the error of Peek if the store did not answer.
var errUnanswered = errors.New("policy: the store did not answer")

// Index returns the index of the policy with this name. The error for an unknown name lists the known ones.
func (s *Set) Index(name string) (index int, err error) {
	names := s.Names()
	if index = slices.Index(names, name); index >= 0 {
		return index, nil
	}
	if len(names) == 1 && names[0] == "" {
		return 0, fmt.Errorf(`policy: unknown policy %q; the only one has no name, use ""`, name)
	}
	return 0, fmt.Errorf("policy: unknown policy %q; want one of %q", name, names)
}

// Names returns the names of the policies, by index.
func (s *Set) Names() []string {
	names := make([]string, len(s.policies))
	for i, p := range s.policies {
		names[i] = p.name
	}
	return names
}

// Overridden reports whether a policy has an override or a ruling for a key, so that no plan decides.
func (s *Set) Overridden(policy int, key string) bool {
	p := s.policies[policy]
	return p.rulesFor(key) != p.own || p.rulingOf(key) != nil
}

// Peek returns the verdict that a request of these parts would get, and charges nothing. It returns an error if the
// store does not answer: the decision of a failure mode does not say what is left.
func (s *Set) Peek(ctx context.Context, group string, parts ...Part) (v Verdict, err error) {
	r := s.Begin()
	defer r.End()
	r.Group = group
	for _, one := range parts {
		r.Add(one)
	}
	r.Decide(ctx, rule.Peek, &v)
	if v.Err == nil && v.Decision.Flags&undecided != 0 {
		return v, errUnanswered
	}
	return v, v.Err
}

// Reset resets the usage of the keys of these parts under their policies: of the policy's own limits, of the override
// for the key and the ruling about it, of the part's plan and of every plan that the Set has seen, of the candidate and
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
	add := func(r *rules) {
		for _, limit := range r.bound {
			limits[limit.Prefix()] = limit
		}
	}
	add(p.own)
	add(p.rulesFor(part.Key))
	if r := p.rulingOf(part.Key); r != nil {
		add(r.rules)
	}
	if p.candidate != nil {
		add(p.candidate)
	}
	if p.penalty != nil {
		limits[p.penalty.Prefix()] = p.penalty
	}
	p.plans.each(add)
	for _, r := range p.named {
		add(r)
	}
	if part.Plan.kind == planLimits {
		r, err := p.planRules(part.Plan.limits)
		if err != nil {
			return err
		}
		add(r)
	}
	var all batch
	for _, limit := range limits {
		all.begin(rule.Reset)
		all.join(store.Charge{Limit: limit, Key: part.Key})
	}
	all.apply(ctx, group, 0, s.stores[p.mode])
	for i := range all.requests {
		if err := all.requests[i].Err; err != nil {
			return err
		}
	}
	return nil
}

// Used reports whether a key has used something of the limits that apply to it: of an override, of the policy or of one of
// its plans, of the ruling about it, or of one with the limits that it had before. It charges nothing.
func (s *Set) Used(ctx context.Context, policy int, key string, before ...slidegate.Limit) (used bool, err error) {
	p := s.policies[policy]
	var all batch
	add := func(r *rules) {
		for _, limit := range r.bound {
			all.begin(rule.Peek)
			all.join(store.Charge{Limit: limit, Key: key})
		}
	}
	add(p.rulesFor(key))
	for _, r := range p.named {
		add(r)
	}
	if r := p.rulingOf(key); r != nil {
		add(r.rules)
	}
	if len(before) > 0 {
		r, err := p.ruling(&Ruling{Key: exactMark + key, Limits: before}, nil)
		if err != nil {
			return false, err
		}
		add(r.rules)
	}
	if len(all.requests) == 0 {
		return false, nil
	}
	all.apply(ctx, "", 0, s.stores[p.mode])
	for i := range all.requests {
		request := &all.requests[i]
		if request.Err != nil {
			return false, request.Err
		}
		if a := &request.Answers[0]; a.Flags&undecided != 0 {
			return false, errUnanswered
		} else if a.ResetAfter > 0 {
			used = true
		}
	}
	return used, nil
}
