package engine

import (
	"fmt"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
)

// bundle compiles limits.
func (p *compiledPolicy) bundle(limits []slidegate.Limit) (*bundle, error) {
	if len(limits) == 0 {
		return nil, fmt.Errorf("%w: no limits; give at least one", slidegate.ErrLimit)
	}
	if err := p.set.checkNames(limits); err != nil {
		return nil, err
	}
	if p.wait > 0 {
		for _, limit := range limits {
			if err := checkWait(limit); err != nil {
				return nil, err
			}
		}
	}
	named := p.withPolicyName(limits)
	limiter, err := p.limiter(named)
	if err != nil {
		return nil, err
	}
	b := &bundle{limiter: limiter, limits: named, bound: adapter.Bound(limiter), notify: p.thresholdsOf(limits)}
	b.slots, b.holds = slices.ContainsFunc(b.bound, isSlots), slices.ContainsFunc(b.bound, holdsUnits)
	if p.set.opts.Prepare != nil {
		b.note, err = p.set.opts.Prepare(named)
	}
	return b, err
}

// limiter returns a limiter with these limits.
func (p *compiledPolicy) limiter(limits []slidegate.Limit) (limiter *slidegate.Limiter, err error) {
	switch {
	case p.own != nil: // it remembers the limits of plans
		limiter, err = p.own.limiter.With(limits...)
	case p.set.limiter != nil:
		if limiter, err = p.set.limiterOf(p.mode, limits); err == nil {
			err = adapter.Declare(limiter) // without a name, it could share the counts of another middleware on this store
		}
	default:
		limiter, err = p.set.base(p.name, p.mode, limits)
	}
	return limiter, err
}

// withPolicyName returns limits with the policy's name before their own, so that policies that share a namespace do not share
// counts by accident. A limit that already has the policy's name keeps it, unless another limit without a name gets it.
func (p *compiledPolicy) withPolicyName(limits []slidegate.Limit) []slidegate.Limit {
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
