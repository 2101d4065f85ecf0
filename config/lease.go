package config

import "github.com/slidegate/slidegate/config/yamlfile"

// leaseAll makes all limits of a policy leased, which says so at the given place: its own, those of its overrides and plans, and its
// candidate. What the overrides and plans come to is checked with the algorithms that they get from the policy.
func (r *reader) leaseAll(at yamlfile.Position) {
	for _, place := range r.unleased {
		r.Problems.Addf(place, "lease: the policy says lease: true in line %d, which is for all of its limits; "+
			"leave it out there and write lease: true for some limits, or leave it out here", at.Line)
	}
	for _, own := range r.written {
		for i := range own.limits {
			own.limits[i].Lease = true
			if err := own.limits[i].Check(); err != nil {
				r.Problems.Addf(own.places[i], "%w (the policy says lease: true in line %d)", limitProblem(err), at.Line)
			}
		}
	}
	for _, o := range r.overridden {
		for i := range o.limits {
			o.limits[i].Lease = true
		}
	}
}

// leased reports whether all limits of a policy are leased, so that it is said once for all of them.
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
