package config

import (
	"fmt"
	"iter"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// leaseAll marks all limits of a policy as leased: its own and those of its overrides and plans; at is where
// the policy sets it.
func (r *reader) leaseAll(at yamlfile.Position) {
	r.leaseWritten(fmt.Sprintf("on line %d", at.Line))
	if from := r.overridesFrom; from != nil {
		from.leaseWritten(fmt.Sprintf("in %s, line %d", r.name, at.Line))
	}
}

// leaseWritten marks the limits of this file; set is where the policy sets lease.
func (r *reader) leaseWritten(set string) {
	for _, position := range r.unleased {
		r.Problems.Addf(position, "lease: the policy has lease: true %s, which applies to all of its limits; "+
			"leave it out there and write lease: true for some limits, or leave it out here", set)
	}
	for _, own := range r.written {
		for i := range own.limits {
			own.limits[i].Lease = true
			if err := adapter.Check(own.limits[i]); err != nil {
				r.Problems.Addf(own.positions[i], "%w (the policy has lease: true %s)", limitProblem(err), set)
			}
		}
	}
}

// AllLimits returns all limits of a policy: its own and those of its overrides and plans.
func (p *Policy) AllLimits() iter.Seq[slidegate.Limit] {
	return func(yield func(slidegate.Limit) bool) {
		lists := [][]slidegate.Limit{p.Limits}
		for i := range p.Overrides {
			lists = append(lists, p.Overrides[i].Limits)
		}
		for i := range p.Plans {
			lists = append(lists, p.Plans[i].Limits)
		}
		for _, list := range lists {
			for _, limit := range list {
				if !yield(limit) {
					return
				}
			}
		}
	}
}

// leased reports whether all limits of a policy are leased, so that it is written once for all of them.
func (p *Policy) leased() bool {
	return len(p.Limits) > 0 && !p.anyLimit(func(l slidegate.Limit) bool { return !l.Lease })
}

// anyLimit reports whether is returns true for any limit of a policy.
func (p *Policy) anyLimit(is func(slidegate.Limit) bool) bool {
	for limit := range p.AllLimits() {
		if is(limit) {
			return true
		}
	}
	return false
}
