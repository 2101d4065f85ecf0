package policy

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate"
)

// Bounds of what is remembered. What is beyond them still works, and is compiled for each request.
const (
	maxKnown      = 1024 // plans of a policy, and combinations of policies that decide together
	maxPlanLimits = 4
	maxJoint      = 4
)

// memo remembers rules, so that they cost a lookup per request. The zero value is empty.
type memo[K comparable] struct {
	known atomic.Pointer[map[K]*rules] // read without a lock, so never written to
	mu    sync.Mutex
}

func (m *memo[K]) get(id K) *rules {
	if known := m.known.Load(); known != nil {
		return (*known)[id]
	}
	return nil
}

// each calls use with everything that is remembered.
func (m *memo[K]) each(use func(*rules)) {
	if known := m.known.Load(); known != nil {
		for _, r := range *known {
			use(r)
		}
	}
}

// put stores rules if there is space, and returns the rules to use: those already stored, if any.
func (m *memo[K]) put(id K, r *rules) *rules {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[K]*rules{}
	if known := m.known.Load(); known != nil {
		if earlier := (*known)[id]; earlier != nil {
			return earlier
		}
		if len(*known) >= maxKnown {
			return r
		}
		next = maps.Clone(*known)
	}
	r.lasts = true
	next[id] = r
	m.known.Store(&next)
	return r
}

// planID identifies the limits of a plan. Their number is part of it: without that, a missing limit, whose value is
// zero, would look like the end of a shorter plan.
type planID struct {
	count  int
	limits [maxPlanLimits]slidegate.Limit
}

// errNoPlan reports a plan made of an empty list. Such a client is hardly meant to be unlimited.
var errNoPlan = errors.New("a plan without limits; use policy.Unlimited or policy.Refused instead")

// planRules returns the rules for the limits of a plan.
func (p *compiled) planRules(limits []slidegate.Limit) (*rules, error) {
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

// planIDOf returns the ID of limits, and whether they are few enough for it to be unique.
func planIDOf(limits []slidegate.Limit) (id planID, short bool) {
	id.count = len(limits)
	return id, copy(id.limits[:], limits) == len(limits)
}

// plan compiles limits that replace the policy's own.
func (p *compiled) plan(limits []slidegate.Limit) (*rules, error) {
	r, err := p.rules(limits)
	if apart := p.separateLimiter(limits, err); apart != nil {
		return p.rulesOf(apart, p.withPolicyName(limits))
	}
	return r, err
}

// separateLimiter returns a limiter for a plan whose limits cannot all count as the policy's own do, which err reports:
// a sliding log does not accept 20,000 units, for example. Those limits use their own default algorithm, and have their
// own counts. It returns nil if that does not help. In a file such a limit is an error, but a plan is compiled for a
// request, which must be decided.
func (p *compiled) separateLimiter(limits []slidegate.Limit, err error) *slidegate.Limiter {
	if err == nil || p.set.checkNames(limits) != nil {
		return nil
	}
	resolved := p.withPolicyName(limits)
	for i := range resolved {
		if _, err := p.own.limiter.With(resolved[i]); err == nil {
			continue
		}
		alone, err := slidegate.Bind("", resolved[i])
		if err != nil || resolved[i].Algorithm != slidegate.DefaultAlgorithm {
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

// jointID identifies the rules of policies that decide together.
type jointID [maxJoint]*rules

// jointRules returns the limits, and the note, of all policies that decide together, followed by those that only peek: the
// order of the answers in the verdict.
func (r *Request) jointRules() *rules {
	var id jointID
	n, lasts := 0, true
	r.eachWithAnswers(func(one *rules) {
		if n < maxJoint {
			id[n] = one
		}
		lasts = lasts && one.lasts // rules that were made for this request are never seen again
		n++
	})
	if n == 1 {
		return id[0]
	}
	lasts = lasts && n <= maxJoint
	if lasts {
		if known := r.set.joints.get(id); known != nil {
			return known
		}
	}
	made := &rules{}
	r.eachWithAnswers(func(one *rules) { made.limits = append(made.limits, one.limits...) })
	if r.set.opts.Prepare != nil {
		made.note, _ = r.set.opts.Prepare(made.limits) // limits that could be prepared one by one can be prepared together
	}
	if lasts {
		made = r.set.joints.put(id, made)
	}
	return made
}

// eachWithAnswers calls use with the rules of the parts whose answers are in the verdict, in order.
func (r *Request) eachWithAnswers(use func(*rules)) {
	for _, decided := range [...]bool{true, false} {
		for i := range r.parts {
			if it := &r.parts[i]; it.hasAnswers(r) && (it.request == 0) == decided {
				use(it.rules)
			}
		}
	}
}
