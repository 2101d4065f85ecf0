package config

import (
	"iter"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// leaseAll marks all limits of a policy as leased: its own, those of its overrides and plans, and its candidate; at is where
// the policy sets it. The limits of overrides and plans are checked with the algorithms that they get from the policy.
func (r *reader) leaseAll(at yamlfile.Position) {
	for _, position := range r.unleased {
		r.Problems.Addf(position, "lease: the policy has lease: true on line %d, which applies to all of its limits; "+
			"leave it out there and write lease: true for some limits, or leave it out here", at.Line)
	}
	for _, own := range r.written {
		for i := range own.limits {
			own.limits[i].Lease = true
			if err := adapter.Check(own.limits[i]); err != nil {
				r.Problems.Addf(own.positions[i], "%w (the policy has lease: true on line %d)", limitProblem(err), at.Line)
			}
		}
	}
	others := r.overridden
	if r.overridesFrom != nil {
		others = append(slices.Clone(others), r.overridesFrom.overridden...)
	}
	for _, o := range others {
		for i := range o.limits {
			o.limits[i].Lease = true
		}
	}
}

// allLimits returns all lists of limits of a policy: its own, its candidate, and those of its overrides and plans.
func (p *Policy) allLimits() iter.Seq[slidegate.Limit] {
	return func(yield func(slidegate.Limit) bool) {
		lists := [][]slidegate.Limit{p.Limits, p.Candidate}
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
	for limit := range p.allLimits() {
		if !limit.Lease {
			return false
		}
	}
	return len(p.Limits) > 0
}
