package engine

import (
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Applying is the limits that decide a part. There are none if a list, a plan or a ruling decides it without them.
type Applying struct {
	Limits  []slidegate.Limit
	Bound   []*store.Limit // the same, as stores see them
	Penalty *store.Limit   // what keeps the key out while it is overdrawn; nil if there is no penalty
}

// Applying returns the limits that decide a part. The error is that of a mistake in the part.
func (s *Set) Applying(part *Part) (a Applying, err error) {
	p := s.policies[part.Policy]
	r, by, err := p.route(rule.Peek, part)
	if err != nil || by != policy.ByLimits {
		return a, err
	}
	a = Applying{Limits: r.limits, Bound: r.bound}
	if p.penalizes(rule.Peek, r, part) {
		a.Penalty = p.penalty
	}
	return a, nil
}
