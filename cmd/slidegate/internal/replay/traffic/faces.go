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
	first    int // what the numbers of the groups begin with
}

// maker makes the key and the cost of requests under one policy.
type maker struct {
	key    keyer
	cost   coster
	routes []coster // the costs of the policy's patterns
	plan   int      // the place of the plan in the values of an entry; -1 if there is none
}

// planOf returns what a request says of its plan.
func (m *maker) planOf(e *entry) []byte {
	if m.plan < 0 {
		return nil
	}
	return e.values[m.plan]
}

// costAt returns the cost of requests about which the pattern at this place decides; that of the policy, if it is negative.
func (m *maker) costAt(route int) *coster {
	if route < 0 {
		return &m.cost
	}
	return &m.routes[route]
}

// planPolicies works out which policies the log can be held against, and how.
func (p *plan) planPolicies(s shape, opts *Options) (err error) {
	if p.faces, err = p.planFaces(s, opts, opts.Policies); err != nil || opts.Against == nil {
		return err
	}
	own := len(p.notes)
	if p.other, err = p.planFaces(s, opts, opts.Against); err != nil {
		return err
	}
	p.other.first = len(opts.Policies.Groups())
	for i := range p.notes[own:] {
		p.notes[own+i] = opts.AgainstName + ": " + p.notes[own+i]
	}
	return nil
}

func (p *plan) planFaces(s shape, opts *Options, policies *facing.Policies) (*faces, error) {
	f := &faces{policies: policies, makers: make([]maker, policies.Len())}
	var taken []int
	var refused error
	for i := range f.makers {
		own := policies.Policy(i)
		made, err := p.planPolicy(s, opts, own, policies.Grouping(opts.Grouping))
		if err != nil {
			refused = cmp.Or(refused, err)
			p.notes = append(p.notes, leftOut(own, err))
			continue
		}
		f.makers[i] = made
		taken = append(taken, i)
	}
	if len(taken) == 0 {
		return nil, refused
	}
	f.known = s.known()
	p.wants.fields |= s.fields() & setOf(fieldMethod, fieldHost, fieldPath, fieldAddress)
	f.finder = policies.NewFinder(f.known, taken)
	p.notes = append(p.notes, policies.Notes(f.known, taken)...)
	return f, nil
}

// planPolicy works out how the key and the cost of one policy are made. It changes what the plan wants only if they can be.
func (p *plan) planPolicy(s shape, opts *Options, own config.Policy, grouping clientip.Grouping) (m maker, err error) {
	trial := *p
	template, cost := own.Key, own.Cost
	if !opts.Key.IsZero() {
		template = opts.Key
	}
	if !opts.Cost.IsZero() || opts.IgnoreOwnCost {
		cost = opts.Cost
	}
	if m.key, err = trial.planKey(s, template, grouping); err != nil {
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
	m.plan = trial.planPlan(s, &own)
	*p = trial
	return m, nil
}

// planPlan works out where the plan of requests is found; -1 if the log does not have it, which a note says.
func (p *plan) planPlan(s shape, own *config.Policy) (slot int) {
	if len(own.RequestPlans()) == 0 {
		return -1
	}
	slot, ok := p.want(s, own.PlanBy)
	if !ok {
		p.notes = append(slices.Clip(p.notes), fmt.Sprintf("The log has no %v, so all requests that face the policy %s were counted as without a plan.", own.PlanBy, own.Name))
		return -1
	}
	return slot
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
	facing := f.finder.Find(e.request())
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
		f.parts = append(f.parts, Part{Group: f.first + f.policies.Of(i, key, address, m.planOf(e)), Key: key, Cost: cost})
	}
	return f.parts, missing, ""
}

// Facing returns made-up traffic, of which nothing is known but keys and costs, as requests that face all policies, and all
// of those that these are held against, if there are some.
func Facing(lines Lines, policies, against *facing.Policies) (Lines, []string) {
	f := &facingAll{lines: lines}
	var notes []string
	for _, own := range []*facing.Policies{policies, against} {
		if own == nil {
			continue
		}
		all := make([]int, own.Len())
		for i := range all {
			all[i] = i
		}
		f.policies = append(f.policies, own)
		notes = append(notes, own.Notes(facing.Known{}, all)...)
	}
	return f, notes
}

type facingAll struct {
	lines    Lines
	policies []*facing.Policies
	parts    []Part
}

// Next gives out the next line.
func (f *facingAll) Next(line *Line) error {
	if err := f.lines.Next(line); err != nil {
		return err
	}
	f.parts = f.parts[:0]
	first := 0
	for _, own := range f.policies {
		for i := range own.Len() {
			f.parts = append(f.parts, Part{Group: first + own.Of(i, line.Key, netip.Addr{}, nil), Key: line.Key, Cost: line.Cost})
		}
		first += len(own.Groups())
	}
	line.Parts = f.parts
	return nil
}
