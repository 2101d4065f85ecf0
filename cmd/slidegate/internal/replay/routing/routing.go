// Package routing finds which policies of a file apply to a recorded request, and which limits each of them has for its
// key. It uses the code of the service: the patterns of httplimit, and the lists and overrides of package policy. A
// pattern is assumed to match what the log does not record; Notes reports this.
package routing

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/match"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
)

// Group describes the keys of a policy that have the same limits: those of the policy, of an override or of a plan.
// Keys that a list decides, or that are unlimited, form a group without limits.
type Group struct {
	Policy   string    // empty if the limits do not belong to a policy
	By       policy.By // what decides: the limits (policy.ByLimits), a list, or an override or plan without limits
	Shadow   bool      // refusals by the group are counted, but refuse no request
	Override string    // the key or pattern of the override that has the limits
	Plan     string    // the name of the plan that has the limits
	Limits   []slidegate.Limit
}

// Policies holds the policies of a file that are replayed. It is immutable and safe for concurrent use. The zero value
// is not usable; call New.
type Policies struct {
	list     []*compiled
	set      *engine.Set
	groups   []Group
	grouping clientip.Grouping // the address groups of the file
}

// Grouping returns which addresses are one client: the given grouping, with unset fields taken from the file.
func (p *Policies) Grouping(given clientip.Grouping) clientip.Grouping {
	return clientip.Grouping{
		V4: cmp.Or(given.V4, p.grouping.V4), V6: cmp.Or(given.V6, p.grouping.V6), KeepEmbedded: given.KeepEmbedded || p.grouping.KeepEmbedded,
	}
}

// compiled is one of the policies.
type compiled struct {
	config.Policy
	pattern
	own            int            // the group of keys without an override or a plan
	overrides      map[int]int    // the groups of overrides, by their index
	plans          map[string]int // the groups of plans that requests name, by name
	find           func(value string) (policy.Plan, bool)
	listGroups     [byCount]int // the groups of keys that are not decided by limits, by what decides
	singleGroup    bool         // every key is in the group own
	shadowEnforced bool         // it is a shadow policy, but refuses requests in the replay
	slots          bool         // it has in-flight limits, which are left out
}

const byCount = policy.ByUnlimited + 1

// New returns the policies of a file, or only the one called name. A shadow policy that is replayed alone refuses
// requests: the replay shows what it would do.
func New(file *config.File, name string) (*Policies, error) {
	chosen := *file
	if name != "" {
		one, err := file.Policy(name)
		if err != nil {
			return nil, err
		}
		chosen.Policies = []config.Policy{*one}
	}
	p := &Policies{grouping: file.Service.AddressGroups}
	var rules []engine.Spec
	for i := range chosen.Policies {
		one := chosen.Policies[i]
		shadowEnforced := one.Shadow && len(chosen.Policies) == 1
		one.Shadow = one.Shadow && !shadowEnforced
		c, err := p.add(one)
		if err != nil {
			return nil, err
		}
		c.shadowEnforced = shadowEnforced
		p.list = append(p.list, c)
		one = c.Policy
		rules = append(rules, engine.Spec{
			Name: one.Name, Form: one.Key.Form(file.Service.AddressGroups), Limits: one.Limits, Overrides: one.Overrides, Plans: one.RequestPlans(), Allow: one.Allow, Block: one.Block, Shadow: one.Shadow,
		})
	}
	// The set only routes keys: nothing is ever kept in the store.
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	p.set, err = engine.NewOver(memory, rules, engine.Options{})
	return p, err
}

// add compiles a policy, and adds its groups.
func (p *Policies) add(given config.Policy) (c *compiled, err error) {
	given.Overrides = given.AllOverrides()
	c = &compiled{Policy: given, overrides: map[int]int{}, plans: map[string]int{}, find: given.FindPlan()}
	if c.pattern, err = newPattern(&given); err != nil {
		return nil, fmt.Errorf("routing: policy %q: %w", given.Name, err)
	}
	if err := c.removeSlots(); err != nil {
		return nil, fmt.Errorf("routing: policy %q: %w", given.Name, err)
	}
	given = c.Policy
	group := Group{Policy: given.Name, Shadow: given.Shadow, Limits: given.Limits}
	c.own = p.group(group)
	for i, override := range given.Overrides {
		if override.Unlimited {
			continue
		}
		group.Override, group.Limits = override.Key, override.Limits
		c.overrides[i] = p.group(group)
	}
	group.Override = ""
	for _, plan := range given.RequestPlans() {
		if !plan.Unlimited {
			group.Plan, group.Limits = plan.Name, plan.Limits
			c.plans[plan.Name] = p.group(group)
		}
	}
	for by := policy.ByLimits + 1; by < byCount; by++ {
		c.listGroups[by] = p.group(Group{Policy: given.Name, Shadow: given.Shadow, By: by})
	}
	c.singleGroup = len(given.Overrides) == 0 && len(given.Plans) == 0 && given.Allow.IsZero() && given.Block.IsZero()
	return c, nil
}

func (p *Policies) group(g Group) int {
	p.groups = append(p.groups, g)
	return len(p.groups) - 1
}

// Groups returns the groups of all policies. The first group is the one with the limits of the first policy. They are
// shared and must not be modified.
func (p *Policies) Groups() []Group { return p.groups }

// Len returns the number of policies.
func (p *Policies) Len() int { return len(p.list) }

// Policy returns one of the policies.
func (p *Policies) Policy(i int) config.Policy { return p.list[i].Policy }

// GroupOf returns the group of a key under a policy. The address of the client is looked up in the lists; the zero Addr is
// on no list. The plan is the value with which the request names its plan, or empty.
func (p *Policies) GroupOf(i int, key []byte, address netip.Addr, plan []byte) (group int) {
	c := p.list[i]
	if c.singleGroup {
		return c.own
	}
	part := engine.Part{Policy: i, Key: string(key), Address: address}
	if found, ok := c.find(string(plan)); ok {
		part.Plan = policy.Named(found.Name)
	}
	by, override, _ := p.set.Route(part)
	if by != policy.ByLimits {
		return c.listGroups[by]
	}
	if group, ok := c.overrides[override]; ok {
		return group
	}
	if group, ok := c.plans[part.Plan.Name]; ok && !p.set.Overridden(i, part.Key) {
		return group
	}
	return c.own
}

// pattern describes which requests a policy applies to.
type pattern struct {
	matcher *match.Matcher // nil if it applies to all
	needs   Known
	samples []sample // one per pattern of the policy
}

// sample is a request that a pattern matches, in parts.
type sample struct{ method, host, path string }
