package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
)

// classes are the classes of a policy; see policy.Class. Each set of limits has a bundle for each of them, which is compiled when the
// first request of the class needs it: it differs from the limits only by smaller quotas, so it cannot be invalid.
type classes struct {
	all    []policy.Class
	others int // the index of the class of requests that name none
}

// newClasses checks the classes of a policy; nil if there are none.
func newClasses(given []policy.Class) (*classes, error) {
	if len(given) == 0 {
		return nil, nil
	}
	for i, one := range given {
		switch {
		case one.Name == "":
			return nil, errors.New("a class has no name, so that no request could be of it; give it one")
		case one.Percent < 1 || one.Percent > 100:
			return nil, fmt.Errorf("class %q: must have 1 to 100 percent, not %d", one.Name, one.Percent)
		case slices.ContainsFunc(given[:i], func(other policy.Class) bool { return other.Name == one.Name }):
			return nil, fmt.Errorf("class %q: duplicate; give each its own name", one.Name)
		}
	}
	others := indexOf(given, policy.DefaultClass)
	if others < 0 {
		return nil, fmt.Errorf("no class is named %q; add one, for requests that name none", policy.DefaultClass)
	}
	return &classes{slices.Clone(given), others}, nil
}

func indexOf(all []policy.Class, name string) int {
	return slices.IndexFunc(all, func(c policy.Class) bool { return c.Name == name })
}

// find returns the index of the class that a request names.
func (c *classes) find(name string) int {
	if i := indexOf(c.all, name); i >= 0 {
		return i
	}
	return c.others
}

// check returns an error if limits cannot have classes.
func (c *classes) check(limits []slidegate.Limit) error {
	for _, limit := range limits {
		switch {
		case c == nil:
		case limit.Lease:
			return fmt.Errorf("%w: lease: a server that leases units for one class would leave less to the others than they have; "+
				"leave out lease or the classes", slidegate.ErrLimit)
		case limit.CountRefused:
			return fmt.Errorf("%w: count_refused: the refused requests of one class would use up what is left for the others; "+
				"leave out count_refused or the classes", slidegate.ErrLimit)
		}
	}
	return nil
}

// classed returns the limits of a class, given those of the policy, or of an override, plan or ruling.
func (p *compiledPolicy) classed(b *bundle, class string) (*bundle, error) {
	at := p.classes.find(class)
	if known := b.classes[at].Load(); known != nil {
		return known, nil
	}
	one := &p.classes.all[at]
	limits := make([]slidegate.Limit, len(b.limits))
	for i, limit := range b.limits {
		limits[i] = limit.Share(one.Percent)
	}
	limiter, err := b.limiter.With(limits...)
	if err != nil {
		return nil, err
	}
	made, err := p.bundleOf(limiter, limits)
	if err != nil {
		return nil, err
	}
	made.class, made.classes, made.notify = one.Name, nil, b.notify
	made.lasts, made.override, made.ruled, made.plan, made.until = b.lasts, b.override, b.ruled, b.plan, b.until
	if !b.classes[at].CompareAndSwap(nil, made) {
		made = b.classes[at].Load()
	}
	return made, nil
}

// newBundles returns space for the bundles of all classes.
func (c *classes) newBundles() []atomic.Pointer[bundle] {
	if c == nil {
		return nil
	}
	return make([]atomic.Pointer[bundle], len(c.all))
}
