package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/policy"
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

// Peek returns the decision that a request of these parts would get, and charges nothing. It returns an error if the
// store does not answer: the decision of a failure mode does not say what is left.
func (s *Set) Peek(ctx context.Context, group string, parts ...Part) (v policy.Decision, err error) {
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

// Used reports whether a key has used something of the limits that apply to it: of an override, of the policy or of one of
// its plans, of the ruling about it, or of one with the limits that it had before. It charges nothing.
func (s *Set) Used(ctx context.Context, policy int, key string, before ...slidegate.Limit) (used bool, err error) {
	p := s.policies[policy]
	var all batch
	add := func(r *bundle) {
		for _, limit := range r.bound {
			all.begin(rule.Peek)
			all.add(store.Charge{Limit: limit, Key: key})
		}
	}
	p.eachBundle(key, add)
	if len(before) > 0 {
		r, err := p.ruling(&Ruling{Key: keyform.Match{Key: key}.String(), Limits: before}, nil)
		if err != nil {
			return false, err
		}
		add(r.bundle)
	}
	if len(all.requests) == 0 {
		return false, nil
	}
	all.apply(ctx, "", 0, s.store)
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

// ReadKey reads a key of a policy, or a prefix of addresses, as in a ruling about it.
func (s *Set) ReadKey(policy int, text string) (keyform.Match, error) {
	return keyform.Read(s.policies[policy].form, text, false)
}

// SingleKey is ReadKey without prefixes.
func (s *Set) SingleKey(policy int, text string) (string, error) {
	read, err := s.ReadKey(policy, text)
	if err == nil && read.Prefix.IsValid() {
		err = fmt.Errorf("%w: it is a prefix, whose addresses have keys of their own; give one address", slidegate.ErrUnsupported)
	}
	if err != nil {
		return "", fmt.Errorf("policy %q: key: %w", s.policies[policy].name, err)
	}
	return read.Key, nil
}
