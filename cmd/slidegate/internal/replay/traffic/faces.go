package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/facing"
	"github.com/slidegate/slidegate/config"
)

// faces makes the parts that policies have in each request.
type faces struct {
	policies *facing.Policies
	finder   *facing.Finder
	known    facing.Known
	makers   []maker // by policy
	parts    []Part
}

// maker makes the key and the cost of requests under one policy.
type maker struct {
	key    keyer
	cost   coster
	routes []coster // the costs of the policy's patterns
}

// costAt returns the cost of requests about which the pattern at this place decides; that of the policy, if it is negative.
func (m *maker) costAt(route int) *coster {
	if route < 0 {
		return &m.cost
	}
	return &m.routes[route]
}

// planFaces works out which policies the log can be held against, and how.
func (p *plan) planFaces(s shape, opts *Options) error {
	f := &faces{policies: opts.Policies, makers: make([]maker, opts.Policies.Len())}
	var taken []int
	var refused error
	for i := range f.makers {
		own := opts.Policies.Policy(i)
		made, err := p.planPolicy(s, opts, own)
		if err != nil {
			refused = cmp.Or(refused, err)
			p.notes = append(p.notes, leftOut(own, err))
			continue
		}
		f.makers[i] = made
		taken = append(taken, i)
	}
	if len(taken) == 0 {
		return refused
	}
	for known, member := range map[*bool]field{
		&f.known.Method: fieldMethod, &f.known.Host: fieldHost, &f.known.Path: fieldPath, &f.known.Address: fieldAddress,
	} {
		if *known = s.fields().has(member); *known {
			p.wants.fields |= setOf(member)
		}
	}
	f.finder = opts.Policies.NewFinder(f.known, taken)
	p.notes = append(p.notes, opts.Policies.Notes(f.known, taken)...)
	p.faces = f
	return nil
}

// planPolicy works out how the key and the cost of one policy are made. It changes what the plan wants only if they can be.
func (p *plan) planPolicy(s shape, opts *Options, own config.Policy) (m maker, err error) {
	trial := *p
	template, cost := own.Key, own.Cost
	if !opts.Key.IsZero() {
		template = opts.Key
	}
	if !opts.Cost.IsZero() || opts.IgnoreOwnCost {
		cost = opts.Cost
	}
	if m.key, err = trial.planKey(s, template, opts.Policies.Grouping(opts.Grouping)); err != nil {
		return m, err
	}
	chosen := !opts.Cost.IsZero() || opts.IgnoreOwnCost
	if m.cost, err = trial.planOwnCost(s, own.Name, cost, chosen, opts.IgnoreOwnCost); err != nil {
		return m, err
	}
	for i := range own.Match {
		if !chosen {
			cost = own.CostAt(i)
		}
		planned, err := trial.planOwnCost(s, own.Name, cost, chosen, opts.IgnoreOwnCost)
		if err != nil {
			return m, err
		}
		m.routes = append(m.routes, planned)
	}
	*p = trial
	return m, nil
}

// planOwnCost is planCost for the cost of a policy. A header that the log never has is one that no request had, unless the cost was
// chosen for this run.
func (p *plan) planOwnCost(s shape, policy string, cost config.Cost, chosen, ignoreOwn bool) (coster, error) {
	field, named := cost.Field()
	if named && field.Kind == config.FieldHeader && !s.hasHeader(field.Name) && !chosen {
		note := fmt.Sprintf("The log has no %v, so requests that face the policy %s by that cost were counted as 1 each.", field, policy)
		if !slices.Contains(p.notes, note) {
			p.notes = append(slices.Clip(p.notes), note)
		}
		return coster{fixed: 1}, nil
	}
	return p.planCost(s, cost, ignoreOwn)
}

// leftOut is the note about a policy that the log cannot be held against.
func leftOut(p config.Policy, err error) string {
	var wrong *config.OptionError
	if errors.As(err, &wrong) {
		err = wrong.Err
	}
	return fmt.Sprintf("The policy %s was left out: %v.", p.Name, err)
}

// of returns the parts of a request, which are valid until the next call; none if it faces no policy. It also reports whether
// a field of a key was missing. If the entry cannot be a request, it says why.
func (f *faces) of(e *entry) (parts []Part, missing bool, why string) {
	facing := f.finder.Find(facing.Request{Method: e.values[fieldMethod], Host: e.values[fieldHost], Path: e.values[fieldPath]})
	f.parts = f.parts[:0]
	var address netip.Addr
	if text := e.values[fieldAddress]; text != nil {
		address, _ = clientip.Parse(text)
	}
	for _, faced := range facing {
		i := faced.Policy
		m := &f.makers[i]
		cost, why := m.costAt(faced.Route).of(e)
		if why != "" {
			return nil, false, why
		}
		key, lacks := m.key.of(e)
		missing = missing || lacks
		f.parts = append(f.parts, Part{Group: f.policies.Of(i, key, address), Key: key, Cost: cost})
	}
	return f.parts, missing, ""
}

// Facing returns made-up traffic, of which nothing is known but keys and costs, as requests that face all policies.
func Facing(lines Lines, policies *facing.Policies) (Lines, []string) {
	all := make([]int, policies.Len())
	for i := range all {
		all[i] = i
	}
	return &facingAll{lines: lines, policies: policies}, policies.Notes(facing.Known{}, all)
}

type facingAll struct {
	lines    Lines
	policies *facing.Policies
	parts    []Part
}

// Next gives out the next line.
func (f *facingAll) Next(line *Line) error {
	if err := f.lines.Next(line); err != nil {
		return err
	}
	f.parts = f.parts[:0]
	for i := range f.policies.Len() {
		f.parts = append(f.parts, Part{Group: f.policies.Of(i, line.Key, netip.Addr{}), Key: line.Key, Cost: line.Cost})
	}
	line.Parts = f.parts
	return nil
}
