package policy

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate"
)

// The bounds of what is remembered. What is beyond them still works, and is made at each request.
const (
	maxKnown      = 1024 // plans of a policy, and policies that decide together
	maxPlanLimits = 4
	maxJoint      = 4
)

// memo remembers rules, so that they cost a look-up at each request. The zero value is empty.
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

func (m *memo[K]) put(id K, r *rules) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[K]*rules{}
	if known := m.known.Load(); known != nil {
		if len(*known) >= maxKnown {
			return
		}
		next = maps.Clone(*known)
	}
	next[id] = r
	m.known.Store(&next)
}

// planID is the limits of a plan.
type planID [maxPlanLimits]slidegate.Limit

// errNoPlan is about a plan that was made of an empty list. Such a client is hardly meant to be unlimited.
var errNoPlan = errors.New("a plan of no limits: use policy.Unlimited or policy.Refused to say so")

// planned returns the rules for the limits of a plan.
func (p *compiled) planned(limits []slidegate.Limit) (*rules, error) {
	if len(limits) == 0 {
		return nil, fmt.Errorf("policy %q: %w: %w", p.name, slidegate.ErrLimit, errNoPlan)
	}
	var id planID
	if copy(id[:], limits) == len(limits) {
		if r := p.plans.get(id); r != nil {
			return r, nil
		}
	}
	r, err := p.rules(limits)
	if err != nil {
		return nil, fmt.Errorf("policy %q: plan: %w", p.name, err)
	}
	if len(limits) <= maxPlanLimits {
		p.plans.put(id, r)
	}
	return r, nil
}

// jointID is the rules of policies that decide together.
type jointID [maxJoint]*rules

// joint returns the limits, and the note, of all policies that decide together.
func (r *Request) joint() *rules {
	var id jointID
	n := 0
	for i := range r.parts {
		if it := &r.parts[i]; it.decides() {
			if n < maxJoint {
				id[n] = it.rules
			}
			n++
		}
	}
	if n == 1 {
		return id[0]
	}
	if n <= maxJoint {
		if known := r.set.joints.get(id); known != nil {
			return known
		}
	}
	made := &rules{}
	for i := range r.parts {
		if it := &r.parts[i]; it.decides() {
			made.limits = append(made.limits, it.rules.limits...)
		}
	}
	if r.set.opts.Prepare != nil {
		made.note, _ = r.set.opts.Prepare(made.limits) // what is prepared one by one can be prepared together
	}
	if n <= maxJoint {
		r.set.joints.put(id, made)
	}
	return made
}
