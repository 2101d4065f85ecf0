package policy

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// candidateSuffix is appended to a namespace to make the namespace of candidates.
const candidateSuffix = "/candidate"

// compiled is a compiled Policy. It does not change, except for the plans that it remembers and for rulings.
type compiled struct {
	set       *Set
	index     int // its index in the policies
	name      string
	mode      Mode
	shadow    bool
	simple    bool // it has no lists, overrides, candidate, penalty or in-flight limits
	own       *rules
	form      Form // of the keys; nil if the application makes them
	overrides keyTable[*rules]
	named     map[string]*rules // the plans that the policy lists, by name
	ordered   []*rules          // all overrides, followed by those plans
	allow     *list
	deny      *list
	candidate *rules
	penalty   *store.Limit // nil if there is none
	counter   func(key string, outcome Outcome)
	plans     memo[planID]
	rulings   atomic.Pointer[rulingSet] // nil if there are no rulings
}

// rules are the limits that apply to some keys of a policy: its own limits, or those of an override or a plan.
type rules struct {
	limiter  *slidegate.Limiter // nil if there is no limit
	bound    []*store.Limit
	limits   []slidegate.Limit
	note     any       // the result of Options.Prepare
	lasts    bool      // they belong to the policy, or are remembered, and are not made for one request
	slots    bool      // they include an in-flight limit
	override int       // the number of the override, from 1: the first that fits applies; 0 if they belong to none
	ruled    bool      // they come from a ruling
	plan     string    // the name of the plan, if they belong to one
	until    time.Time // when a ruling that denies everything ends; zero if it does not end
}

// policy compiles one policy.
func (s *Set) policy(given Policy) (*compiled, *Error) {
	mode := cmp.Or(given.Failure, s.opts.Failure, Open)
	if mode >= modes {
		return nil, &Error{Option: "failure", Err: fmt.Errorf("unknown mode %d; want Open, Local, Optimistic or Closed", mode)}
	}
	p := &compiled{set: s, name: given.Name, mode: mode, shadow: given.Shadow, counter: given.Count, form: given.Form}
	if s.limiter == nil && s.stores[mode] == nil {
		return nil, &Error{Option: "failure", Err: fmt.Errorf("no store for %q", mode)}
	}
	limits := given.Limits
	if len(limits) == 0 && s.limiter != nil {
		limits = s.limiter.Limits()
	}
	var err error
	if p.allow, err = newList(given.Allow, p.form); err != nil {
		return nil, &Error{Option: "allow", Err: err}
	}
	if p.deny, err = newList(given.Deny, p.form); err != nil {
		return nil, &Error{Option: "deny", Err: err}
	}
	if p.own, err = p.rules(limits); err != nil {
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
	if len(given.Candidate) > 0 {
		if err = p.set.checkNames(given.Candidate); err != nil {
			return nil, &Error{Option: "candidate", Err: err}
		}
		if p.candidate, err = p.prepare(p.withPolicyName(given.Candidate), true); err != nil {
			return nil, &Error{Option: "candidate", Err: err}
		}
		p.candidate.lasts = true
	}
	if err = p.penalize(&given); err != nil {
		return nil, &Error{Option: "penalty", Err: err}
	}
	p.simple = p.allow == nil && p.deny == nil && p.overrides.isEmpty() && p.candidate == nil && p.penalty == nil && !p.own.slots
	return p, nil
}

func (p *compiled) override(index int, given Override) (err error) {
	read, err := ReadKey(p.form, given.Key, given.Pattern)
	if err != nil {
		return fmt.Errorf("key %w", err)
	}
	r := &rules{}
	if !given.Unlimited {
		if r, err = p.rules(given.Limits); err != nil {
			return err
		}
	}
	r.override, r.lasts = index+1, true
	p.overrides.add(read.Keys, r)
	p.ordered = append(p.ordered, r)
	return nil
}

// rules compiles limits.
func (p *compiled) rules(limits []slidegate.Limit) (*rules, error) {
	if len(limits) == 0 {
		return nil, fmt.Errorf("%w: no limits; give at least one", slidegate.ErrLimit)
	}
	if err := p.set.checkNames(limits); err != nil {
		return nil, err
	}
	return p.prepare(p.withPolicyName(limits), false)
}

// prepare compiles limits whose names are those of the state.
func (p *compiled) prepare(limits []slidegate.Limit, candidate bool) (*rules, error) {
	limiter, err := p.limiter(limits, candidate)
	if err != nil {
		return nil, err
	}
	return p.rulesOf(limiter, limits)
}

// limiter returns a limiter with these limits.
func (p *compiled) limiter(limits []slidegate.Limit, candidate bool) (limiter *slidegate.Limiter, err error) {
	switch {
	case candidate: // in their own namespace, and counted as they would be in place of the policy's own limits
		limiter, err = p.set.base(p.own.bound[0].Namespace()+candidateSuffix, p.mode, limits)
	case p.own != nil: // it remembers the limits of plans
		limiter, err = p.own.limiter.With(limits...)
	case p.set.limiter != nil:
		if limiter, err = p.set.limiterOf(p.mode, limits); err == nil {
			err = limiter.Declare() // without a name, it could share the counts of another middleware on this store
		}
	default:
		limiter, err = p.set.base(p.name, p.mode, limits)
	}
	return limiter, err
}

// rulesOf returns the rules of a limiter with these limits.
func (p *compiled) rulesOf(limiter *slidegate.Limiter, limits []slidegate.Limit) (r *rules, err error) {
	r = &rules{limiter: limiter, limits: limits, bound: limiter.Bound()}
	r.slots = slices.ContainsFunc(r.bound, isSlots)
	if p.set.opts.Prepare != nil {
		r.note, err = p.set.opts.Prepare(limits)
	}
	return r, err
}

// withPolicyName returns limits with the policy's name before their own, so that policies that share a namespace do not share
// counts by accident. A limit that already has the policy's name keeps it, unless another limit without a name gets it.
func (p *compiled) withPolicyName(limits []slidegate.Limit) []slidegate.Limit {
	named := slices.Clone(limits)
	taken := slices.ContainsFunc(limits, func(l slidegate.Limit) bool { return l.Name == "" })
	for i := range named {
		switch own := &named[i].Name; {
		case p.set.limiter == nil || p.name == "":
		case *own == p.name && !taken:
		case *own == "":
			*own = p.name
		default:
			*own = p.name + "/" + *own
		}
	}
	return named
}

// maxLimits returns the maximum number of limits that apply to a key.
func (p *compiled) maxLimits() int {
	n := len(p.own.bound)
	for _, r := range p.ordered {
		n = max(n, len(r.bound))
	}
	if p.penalty != nil {
		n++
	}
	return n
}

// route finds what decides a part: a ruling, a list, or otherwise the returned rules. An error means an invalid plan,
// or that there is no candidate.
func (p *compiled) route(op rule.Op, part *Part) (*rules, By, error) {
	if p.isSimple() && part.usesOwnLimits() {
		return p.own, ByLimits, nil
	}
	switch {
	case part.Err != nil:
		return nil, ByLimits, &partError{part.Err}
	case part.Candidate && p.candidate == nil:
		return nil, ByLimits, fmt.Errorf("policy %q: %w: the part is for the candidate, but the policy has none; see HasCandidate",
			p.name, slidegate.ErrUnsupported)
	case part.Candidate:
		return p.candidate, ByLimits, nil
	}
	// Refunds and charges of units already used belong to requests from before a ruling that denies everything.
	if r := p.rulingOf(part.Key); r != nil && (r.by != ByRuling || counts(op) || op == rule.Peek) {
		return r.rules, r.by, nil
	}
	switch {
	case p.deny.has(part.Key, part.Address):
		return nil, ByDenyList, nil
	case part.Plan.kind == planRefused && p.rulesFor(part.Key) == p.own:
		return nil, ByDenyList, nil
	case p.allow.has(part.Key, part.Address):
		return nil, ByAllowList, nil
	}
	r := p.rulesFor(part.Key)
	if r == p.own && part.Plan.kind != planOwn {
		return p.routePlan(&part.Plan)
	}
	if r.limiter == nil {
		return r, ByUnlimited, nil
	}
	return r, ByLimits, nil
}

// isSimple reports whether the policy's own limits apply to all keys, unless a part selects others.
func (p *compiled) isSimple() bool { return p.simple && p.rulings.Load() == nil }

// rulesFor returns the rules that apply to a key by the policy itself.
func (p *compiled) rulesFor(key string) *rules {
	if p.overrides.isEmpty() {
		return p.own
	}
	found := p.own
	p.overrides.each(key, func(r *rules, _ int) bool {
		if found == p.own || r.override < found.override {
			found = r
		}
		return true
	})
	return found
}

// Route returns what would decide a part, without calling the store: the index of the override that fits, or -1, and the
// entry of the allow or deny list, as it is written there.
func (s *Set) Route(part Part) (by By, override int, entry string) {
	p := s.policies[part.Policy]
	r, by, _ := p.route(rule.Peek, &part)
	override = -1
	if r != nil {
		override = r.override - 1
	}
	switch by {
	case ByDenyList:
		entry = p.deny.entry(part.Key, part.Address)
	case ByAllowList:
		entry = p.allow.entry(part.Key, part.Address)
	}
	return by, override, entry
}

// Mode returns the failure mode of a policy.
func (s *Set) Mode(policy int) Mode { return s.policies[policy].mode }

// Limiter returns the limiter of a policy's own limits.
func (s *Set) Limiter(policy int) *slidegate.Limiter { return s.policies[policy].own.limiter }

// BoundLimits returns all limits of a policy as stores see them: its own, those of its overrides and of its plans in order,
// those of its candidate, and that of its penalty.
func (s *Set) BoundLimits(policy int) []*store.Limit {
	p := s.policies[policy]
	bound := slices.Clone(p.own.bound)
	for _, r := range p.ordered {
		bound = append(bound, r.bound...)
	}
	if p.candidate != nil {
		bound = append(bound, p.candidate.bound...)
	}
	if p.penalty != nil {
		bound = append(bound, p.penalty)
	}
	return bound
}

// HasSlots reports whether a policy has an in-flight limit: among its own limits, those of its overrides and plans, or
// its candidate's. Such limits can decide only a Request whose slots are released; see Slots.
func (s *Set) HasSlots(policy int) bool { return slices.ContainsFunc(s.BoundLimits(policy), isSlots) }

// HasCandidate reports whether a policy has candidate limits that are counted for this key: they are not for a key with
// an override or a ruling.
func (s *Set) HasCandidate(policy int, key string) bool {
	return s.policies[policy].candidate != nil && !s.Overridden(policy, key)
}
