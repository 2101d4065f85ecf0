package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// New compiles policies over a limiter. They share its namespace, and the name of a policy precedes the names of its
// limits. A limit that the store does not support is an error, and so are limits of the limiter's own that no policy uses,
// because all of them have other ones.
//
// If the limiter's store has no failure layer, New puts the layers of package stack over it, which are none over a memstore.
// Several Sets over one store then have layers of their own each; to share them, call stack.New first.
func New(limiter *slidegate.Limiter, policies []Spec, opts Options) (*Set, error) {
	if limiter == nil {
		return nil, errors.New("policy: limiter: must not be nil; use slidegate.New")
	}
	s := &Set{opts: opts}
	var err error
	if s.limiter, err = adapter.Over(limiter, s.open); err != nil {
		return nil, err
	}
	if s, err = s.compile(policies); err != nil {
		return nil, err
	}
	if len(limiter.Limits()) > 0 && len(policies) > 0 && !slices.ContainsFunc(policies, func(p Spec) bool { return len(p.Limits) == 0 }) {
		return nil, errors.New("policy: limits: no policy uses the limiter's own limits, since each has others; " +
			"leave them out of a policy that is meant to use them, or create the limiter by slidegate.New without limits")
	}
	return s, nil
}

// NewOver compiles policies over a store as it is: with the layers that it has. The name of a policy is the namespace of its
// limits.
func NewOver(st store.Store, policies []Spec, opts Options) (*Set, error) {
	if st == nil {
		return nil, errors.New("policy: store: must not be nil; use stack.New, or memstore.NewDefault")
	}
	s := &Set{opts: opts}
	s.use(st, st)
	return s.compile(policies)
}

func (s *Set) compile(policies []Spec) (*Set, error) {
	if s.opts.Failure >= store.Modes {
		return nil, fmt.Errorf("policy: failure: %w", unknownMode(s.opts.Failure))
	}
	s.bases, s.releases = map[baseID]*slidegate.Limiter{}, new(releases)
	if s.opts.Before != nil {
		s.releases = s.opts.Before.releases
	}
	s.transactions.New = func() any { return new(Transaction) }
	for i, given := range policies {
		if err := s.checkName(given.Name); err != nil {
			return nil, fmt.Errorf("policy: name: %w", err)
		}
		if err := checkNameDistinct(policies, i); err != nil {
			return nil, err
		}
		p, err := s.policy(given)
		if err != nil {
			err.Policy = given.Name
			return nil, err
		}
		s.policies = append(s.policies, p)
	}
	s.warnUnnamed()
	s.opts.Before = nil // otherwise every earlier set would stay in memory
	return s, nil
}

// checkNameDistinct returns an error if the counts of a policy and of an earlier one could have the same name. A slash
// separates the name of a policy and of its limit, so a limit x of the policy api has the same name as the policy
// api/x.
func checkNameDistinct(policies []Spec, i int) error {
	name := policies[i].Name
	if name == "" && len(policies) > 1 {
		return errors.New("policy: name: missing, but there are several policies; give each its own name")
	}
	for _, other := range policies[:i] {
		switch {
		case name == other.Name:
			return fmt.Errorf("policy: name: duplicate %q; give each policy its own", name)
		case strings.HasPrefix(name, other.Name+"/"), strings.HasPrefix(other.Name, name+"/"):
			return fmt.Errorf("policy: name: %q and %q: the name of a policy must not be a path prefix of another's", other.Name, name)
		}
	}
	return nil
}

// CheckTogether returns an error if one of the sample requests has more limits than the store decides together, or policies
// with different keys on a store that decides one key at a time. applies reports whether the policy at that index applies to a
// sample. sameKey reports whether two policies use the same key for every request; nil means that requests have a group.
func (s *Set) CheckTogether(samples int, applies func(sample, policy int) bool, sameKey func(policy, other int) bool) error {
	for i := range samples {
		var names []string
		charges, first, together := 0, -1, true
		for j, other := range s.policies {
			if other.shadow || !applies(i, j) {
				continue
			}
			if first < 0 {
				first = j
			}
			names = append(names, other.name)
			charges += other.maxLimits()
			together = together && (sameKey == nil || j == first || sameKey(first, j))
		}
		err := s.checkCharges(charges)
		if err == nil && !together && s.traits.OneKey {
			err = s.errKeys()
		}
		if err != nil {
			return fmt.Errorf("policies %q: %w", names, err)
		}
	}
	return nil
}

// policy compiles one policy.
func (s *Set) policy(given Spec) (*compiledPolicy, *Error) {
	mode := cmp.Or(given.Failure, s.mode)
	if mode >= store.Modes {
		return nil, &Error{Option: "failure", Err: unknownMode(mode)}
	}
	p := &compiledPolicy{set: s, name: given.Name, mode: mode, shadow: given.Shadow, counter: given.Count, form: given.Form}
	limits := given.Limits
	if len(limits) == 0 && s.limiter != nil {
		limits = s.limiter.Limits()
	}
	var err error
	if p.allow, err = newList(given.Allow, p.form); err != nil {
		return nil, &Error{Option: "allow", Err: err}
	}
	if p.refuse, err = newList(given.Block, p.form); err != nil {
		return nil, &Error{Option: "block", Err: err}
	}
	p.thresholds, p.crossed = given.Notify, given.Crossed
	if err = p.letWait(&given); err != nil {
		return nil, &Error{Option: "wait", Err: err}
	}
	if p.own, err = p.bundle(limits); err != nil {
		return nil, &Error{Option: "limits", Err: err}
	}
	p.own.lasts = true
	for i, override := range given.Overrides {
		if err := p.override(i, override); err != nil {
			return nil, &Error{Option: "overrides", Err: fmt.Errorf("override %d: %w", i+1, err)}
		}
	}
	if err := p.addPlans(given.Plans); err != nil {
		return nil, err
	}
	if err = p.penalize(&given); err != nil {
		return nil, &Error{Option: "penalty", Err: err}
	}
	p.simple = p.wait == 0 && p.allow == nil && p.refuse == nil && p.overrides.IsEmpty() && p.penalty == nil && len(p.thresholds) == 0 && !p.own.slots
	return p, nil
}

func (p *compiledPolicy) override(index int, given policy.Override) (err error) {
	if !given.Pattern && strings.Contains(given.Key, "*") {
		return errors.New("key contains a *; for a pattern, set Pattern, or write keys in a file")
	}
	read, err := keyform.Read(p.form, given.Key, given.Pattern)
	if err != nil {
		return fmt.Errorf("key %w", err)
	}
	r := &bundle{}
	if !given.Unlimited {
		if r, err = p.bundle(given.Limits); err != nil {
			return err
		}
	}
	r.override, r.lasts = index+1, true
	p.overrides.Add(read, r)
	p.ordered = append(p.ordered, r)
	return nil
}

// maxLimits returns the maximum number of limits that apply to a key.
func (p *compiledPolicy) maxLimits() int {
	n := len(p.own.bound)
	for _, r := range p.ordered {
		n = max(n, len(r.bound))
	}
	if p.penalty != nil {
		n++
	}
	return n
}
