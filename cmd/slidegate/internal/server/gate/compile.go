package gate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/store"
)

// candidateOf is added to the name of a policy to make the namespace of its candidate. No policy's name has a slash.
const candidateOf = "/candidate"

// policy makes one policy ready.
func (b *builder) policy(given *config.Policy) (*policy, error) {
	p := &policy{Policy: *given, fields: given.Key.Fields(), allow: newList(given.Allow), deny: newList(given.Deny)}
	var err error
	if p.mode, err = b.mode(given.Failure); err != nil {
		return nil, err
	}
	if p.store = b.gate.stores[p.mode]; p.store == nil {
		return nil, invalid("failure", "there is no store for %q", modeNames[p.mode])
	}
	if p.plain, err = b.rules(p, given.Limits); err != nil {
		return nil, err
	}
	if err := b.overrides(p); err != nil {
		return nil, err
	}
	if p.candidate, err = b.candidate(p); err != nil {
		return nil, invalid("candidate", "%w", err)
	}
	if given.Match != "" {
		if p.mux, err = newMatch(given.Match); err != nil {
			return nil, err
		}
	}
	if err := checkKnown(given); err != nil {
		return nil, err
	}
	p.fixed, _ = given.Cost.Fixed()
	p.tally = b.gate.metrics.tallyOf(p.Name)
	return p, nil
}

func (b *builder) mode(failure string) (int, error) {
	if failure == "" {
		failure = b.made.file.Service.Failure
	}
	if failure == "" {
		failure = config.FailOpen
	}
	mode := slices.Index(modeNames[:], failure)
	if mode < 0 {
		return 0, invalid("failure", "%q: must be open, closed or local", failure)
	}
	return mode, nil
}

// checkKnown refuses keys and costs that only recorded traffic has: a live request would get the same key as every other.
func checkKnown(given *config.Policy) error {
	for _, field := range given.Key.Fields() {
		if field.Kind == config.FieldStatus || field.Kind == config.FieldJSON {
			return invalid("key", "{%v} is known in recorded traffic only; use address, user, key, header:NAME, "+
				"method, path, query or host", field)
		}
	}
	if field, named := given.Cost.Field(); named {
		return invalid("cost", "%v is known in recorded traffic only; write a number", field)
	}
	return nil
}

func (b *builder) overrides(p *policy) error {
	for i := range p.Overrides {
		o := &p.Overrides[i]
		r := &rules{}
		if !o.Unlimited {
			var err error
			if r, err = b.rules(p, o.Limits); err != nil {
				return invalid("overrides", "override %d: limits: %w", i+1, err)
			}
		}
		r.override, r.place = o.Key, i
		switch {
		case o.Pattern:
			p.patterns = append(p.patterns, r)
		case p.exact == nil:
			p.exact = map[string]*rules{o.Key: r}
		case p.exact[o.Key] == nil:
			p.exact[o.Key] = r
		}
	}
	return nil
}

// rules makes limits ready. Those that were there before are not made anew.
func (b *builder) rules(p *policy, limits []slidegate.Limit) (*rules, error) {
	if len(limits) == 0 {
		return nil, errors.New("there are none; give at least one")
	}
	base, err := b.limiter(p)
	if err != nil {
		return nil, err
	}
	r := &rules{limits: slices.Clone(limits)}
	if r.limiter, err = base.With(limits...); err != nil {
		return nil, err
	}
	for _, limit := range limits {
		bound, err := b.bind(p.Name, limit)
		if err != nil {
			return nil, err
		}
		r.bound = append(r.bound, bound)
	}
	return r, nil
}

// limiter returns the limiter without limits that all others of the policy are made from: it remembers them.
func (b *builder) limiter(p *policy) (*slidegate.Limiter, error) {
	id := limiterID{p.Name, p.mode}
	base := b.made.memory.limiters[id]
	if base == nil {
		base = b.last.limiters[id]
	}
	if base == nil {
		var err error
		if base, err = slidegate.NewPerCall(p.store, p.Name); err != nil {
			return nil, err
		}
	}
	b.made.memory.limiters[id] = base
	return base, nil
}

func (b *builder) bind(namespace string, limit slidegate.Limit) (*store.Limit, error) {
	id := boundID{namespace, limit}
	bound := b.made.memory.bound[id]
	if bound == nil {
		bound = b.last.bound[id]
	}
	if bound == nil {
		var err error
		if bound, err = slidegate.Bind(namespace, limit); err != nil {
			return nil, err
		}
	}
	b.made.memory.bound[id] = bound
	return bound, nil
}

func (b *builder) candidate(p *policy) (bound []*store.Limit, err error) {
	for _, limit := range p.Candidate {
		c, err := b.bind(p.Name+candidateOf, limit)
		if err != nil {
			return nil, err
		}
		if slices.Contains(bound, c) || slices.ContainsFunc(bound, func(o *store.Limit) bool { return o.Prefix() == c.Prefix() }) {
			return nil, fmt.Errorf("%w: %q shares its counts with another; give them different names", slidegate.ErrConflict, limit)
		}
		if err := p.store.Check(c); err != nil {
			return nil, err
		}
		bound = append(bound, c)
	}
	if most := p.store.Traits().MaxCharges; len(bound) > most {
		return nil, fmt.Errorf("%w: %d limits at once, the store decides at most %d atomically", store.ErrUnsupported, len(bound), most)
	}
	return bound, nil
}
