package engine

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate"
)

// planID identifies the limits of a plan. Their number is part of it: without that, a missing limit, whose value is
// zero, would look like the end of a shorter plan.
type planID struct {
	count  int
	limits [maxPlanLimits]slidegate.Limit
}

// planIDOf returns the ID of limits, and whether they are few enough for it to be unique.
func planIDOf(limits []slidegate.Limit) (id planID, short bool) {
	id.count = len(limits)
	return id, copy(id.limits[:], limits) == len(limits)
}

// jointID identifies the rules of policies that decide together.
type jointID [maxJoint]*bundle

// Bounds of what is remembered. What is beyond them still works, and is compiled for each request.
const (
	maxKnown      = 1024 // plans of a policy, and combinations of policies that decide together
	maxPlanLimits = 4
	maxJoint      = 4
)

// memo remembers rules, so that they cost a lookup per request. The zero value is empty.
type memo[K comparable] struct {
	known atomic.Pointer[map[K]*bundle] // read without a lock, so never written to
	mu    sync.Mutex
}

func (m *memo[K]) get(id K) *bundle {
	if known := m.known.Load(); known != nil {
		return (*known)[id]
	}
	return nil
}

// each calls use with everything that is remembered.
func (m *memo[K]) each(use func(*bundle)) {
	if known := m.known.Load(); known != nil {
		for _, r := range *known {
			use(r)
		}
	}
}

// put stores rules if there is space, and returns the rules to use: those already stored, if any.
func (m *memo[K]) put(id K, r *bundle) *bundle {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[K]*bundle{}
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
