package config

import "github.com/slidegate/slidegate/config/yamlfile"

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
			if err := own.limits[i].Check(); err != nil {
				r.Problems.Addf(own.positions[i], "%w (the policy has lease: true on line %d)", limitProblem(err), at.Line)
			}
		}
	}
	for _, o := range r.overridden {
		for i := range o.limits {
			o.limits[i].Lease = true
		}
	}
}

// leased reports whether all limits of a policy are leased, so that it is written once for all of them.
func (p *Policy) leased() bool {
	for i := range p.Limits {
		if !p.Limits[i].Lease {
			return false
		}
	}
	for i := range p.Overrides {
		for k := range p.Overrides[i].Limits {
			if !p.Overrides[i].Limits[k].Lease {
				return false
			}
		}
	}
	for i := range p.Plans {
		for k := range p.Plans[i].Limits {
			if !p.Plans[i].Limits[k].Lease {
				return false
			}
		}
	}
	for i := range p.Candidate {
		if !p.Candidate[i].Lease {
			return false
		}
	}
	return len(p.Limits) > 0
}
