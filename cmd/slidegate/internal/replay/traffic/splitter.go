package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/options"
)

// splitter builds the parts of each request, one per policy that applies.
type splitter struct {
	policies *routing.Policies
	finder   *routing.Finder
	known    routing.Known
	builders []partBuilder // by policy
	parts    []Part
	first    int // the number of the first group
}

// partBuilder builds the key and the cost of requests under one policy.
type partBuilder struct {
	key    keyer
	cost   coster
	routes []coster // the costs of the policy's patterns
	plan   int      // the index of the plan in the values of an entry; -1 if there is none
}

// planOf returns the value by which a request names its plan.
func (m *partBuilder) planOf(e *entry) []byte {
	if m.plan < 0 {
		return nil
	}
	return e.values[m.plan]
}

// costAt returns the cost of requests that match the pattern at index route, or the cost of the policy if route is
// negative.
func (m *partBuilder) costAt(route int) *coster {
	if route < 0 {
		return &m.cost
	}
	return &m.routes[route]
}

// planPolicies determines which policies can be replayed on the log, and how.
func (p *plan) planPolicies(s shape, opts *Options) (err error) {
	if p.splitter, err = p.planSplitter(s, opts, opts.Policies); err != nil || opts.Against == nil {
		return err
	}
	own := len(p.notes)
	if p.other, err = p.planSplitter(s, opts, opts.Against); err != nil {
		return err
	}
	p.other.first = len(opts.Policies.Groups())
	for i := range p.notes[own:] {
		p.notes[own+i] = opts.AgainstName + ": " + p.notes[own+i]
	}
	return nil
}

func (p *plan) planSplitter(s shape, opts *Options, policies *routing.Policies) (*splitter, error) {
	f := &splitter{policies: policies, builders: make([]partBuilder, policies.Len())}
	var replayed []int
	var firstErr error
	for i := range f.builders {
		own := policies.Policy(i)
		builder, err := p.planPolicy(s, opts, own, policies.Grouping(opts.Grouping))
		if err != nil {
			firstErr = cmp.Or(firstErr, err)
			p.notes = append(p.notes, omissionNote(own, err))
			continue
		}
		f.builders[i] = builder
		replayed = append(replayed, i)
	}
	if len(replayed) == 0 {
		return nil, firstErr
	}
	f.known = s.known()
	p.wants.fields |= s.fields() & setOf(fieldMethod, fieldHost, fieldPath, fieldAddress)
	f.finder = policies.NewFinder(f.known, replayed)
	p.notes = append(p.notes, policies.Notes(f.known, replayed)...)
	return f, nil
}

// planPolicy determines how the key and the cost of one policy are built. On an error it leaves p unchanged.
func (p *plan) planPolicy(s shape, opts *Options, own config.Policy, grouping clientip.Grouping) (m partBuilder, err error) {
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
	m.plan = trial.planRequestPlan(s, &own)
	*p = trial
	return m, nil
}

// planRequestPlan returns the index of the plan in the values of an entry, or -1, with a note, if the log does not have it.
func (p *plan) planRequestPlan(s shape, own *config.Policy) (slot int) {
	if len(own.RequestPlans()) == 0 {
		return -1
	}
	slot, ok := p.want(s, own.PlanBy)
	if !ok {
		p.notes = append(slices.Clip(p.notes), fmt.Sprintf("The log has no %v, so all requests under the policy %s were counted as having no plan.", own.PlanBy, own.Name))
		return -1
	}
	return slot
}

// planOwnCost is like planCost, for the cost of a policy. If the log lacks the header, requests are counted as without
// it, unless the cost was chosen for this run.
func (p *plan) planOwnCost(s shape, policy string, cost fields.Cost, chosen, ignoreOwn bool) (coster, error) {
	field, named := cost.Field()
	if named && field.Kind == fields.Header && !s.hasHeader(field.Name) && !chosen {
		note := fmt.Sprintf("The log has no %v, so requests with that cost under the policy %s were counted as 1 each.", field, policy)
		if !slices.Contains(p.notes, note) {
			p.notes = append(slices.Clip(p.notes), note)
		}
		return coster{fixed: 1}, nil
	}
	return p.planCost(s, cost, ignoreOwn)
}

// omissionNote returns the note about a policy that cannot be replayed on the log.
func omissionNote(p config.Policy, err error) string {
	var wrong *options.Error
	if errors.As(err, &wrong) {
		err = wrong.Err
	}
	return fmt.Sprintf("The policy %s was left out: %v.", p.Name, err)
}

// of returns the parts of a request, which are valid until the next call; none if no policy applies. It also reports
// whether a field of a key was missing. If the entry is not a valid request, why is the reason.
func (f *splitter) of(e *entry) (parts []Part, missing bool, why string) {
	applied := f.finder.Find(e.request())
	f.parts = f.parts[:0]
	var address netip.Addr
	if text := e.values[fieldAddress]; text != nil {
		address, _ = clientip.Parse(text)
	}
	for _, one := range applied {
		i := one.Policy
		m := &f.builders[i]
		cost, why := m.costAt(one.Route).of(e)
		if why != "" {
			return nil, false, why
		}
		key, lacks := m.key.of(e)
		missing = missing || lacks
		f.parts = append(f.parts, Part{Group: f.first + f.policies.GroupOf(i, key, address, m.planOf(e)), Key: key, Cost: cost})
	}
	return f.parts, missing, ""
}
