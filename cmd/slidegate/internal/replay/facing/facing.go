// Package facing finds out which policies of a file a recorded request faces, and which limits each of them has for its
// key. It does so with the code that the service decides by: the patterns of httplimit, and the lists and overrides of
// package policy. What a log cannot tell it takes as fitting, and says so in Notes.
package facing

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
)

// Group is the keys of a policy that face the same limits: its own, or those of an override. Keys for which a list decides,
// or which have no limit, are a group without limits.
type Group struct {
	Policy   string    // empty if the limits are of no policy
	By       policy.By // what decides: policy.ByLimits, or what does in place of them
	Shadow   bool      // what the group refuses is counted, and refuses no request
	Override string    // the key or pattern of the override that the limits are of
	Plan     string    // the name of the plan that they are of
	Limits   []slidegate.Limit
}

// Policies are the policies of a file that are replayed. They do not change, and are safe for concurrent use. New makes
// them.
type Policies struct {
	list   []*facedPolicy
	set    *policy.Set
	groups []Group
	known  clientip.Grouping // the file's groups of addresses
}

// Grouping returns which addresses are one client: as given, and where that says nothing, as the file says.
func (p *Policies) Grouping(given clientip.Grouping) clientip.Grouping {
	return clientip.Grouping{
		V4: cmp.Or(given.V4, p.known.V4), V6: cmp.Or(given.V6, p.known.V6), KeepEmbedded: given.KeepEmbedded || p.known.KeepEmbedded,
	}
}

// facedPolicy is one of the policies.
type facedPolicy struct {
	config.Policy
	pattern
	own       int            // its group
	overrides map[string]int // the groups of overrides, by their key or pattern
	plans     map[string]int // the groups of plans that requests name, by their names
	find      func(value string) (config.Plan, bool)
	listed    [byCount]int // the groups of keys that limits do not decide about, by what does
	bare      bool         // every key is of the group own
	revealed  bool         // it is in the shadow, and refuses here all the same
	slots     bool         // it has in-flight limits, which are left out
}

const byCount = policy.ByUnlimited + 1

// New returns the policies of a file, or the one of that name alone. A policy that is replayed alone refuses also if it is
// in the shadow: what it would do is the question.
func New(file *config.File, name string) (*Policies, error) {
	chosen := *file
	if name != "" {
		one, err := file.Policy(name)
		if err != nil {
			return nil, err
		}
		chosen.Policies = []config.Policy{*one}
	}
	p := &Policies{known: file.Service.AddressGroups}
	var rules []policy.Policy
	for i := range chosen.Policies {
		one := chosen.Policies[i]
		revealed := one.Shadow && len(chosen.Policies) == 1
		one.Shadow = one.Shadow && !revealed
		faced, err := p.add(one)
		if err != nil {
			return nil, err
		}
		faced.revealed = revealed
		p.list = append(p.list, faced)
		one = faced.Policy
		rules = append(rules, policy.Policy{
			Name: one.Name, Limits: one.Limits, Overrides: one.Overrides, Plans: one.RequestPlans(), Allow: one.Allow, Deny: one.Deny, Shadow: one.Shadow,
		})
	}
	// The set only says what decides about a key: nothing is ever kept in the store.
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	p.set, err = policy.NewOver(policy.Stores{Open: memory}, rules, policy.Options{})
	return p, err
}

// add makes a policy ready, and its groups.
func (p *Policies) add(given config.Policy) (faced *facedPolicy, err error) {
	given.Overrides = given.AllOverrides()
	faced = &facedPolicy{Policy: given, overrides: map[string]int{}, plans: map[string]int{}, find: given.FindPlan()}
	if faced.pattern, err = newPattern(&given); err != nil {
		return nil, fmt.Errorf("facing: policy %q: %w", given.Name, err)
	}
	if err := faced.leaveOutSlots(); err != nil {
		return nil, fmt.Errorf("facing: policy %q: %w", given.Name, err)
	}
	given = faced.Policy
	group := Group{Policy: given.Name, Shadow: given.Shadow, Limits: given.Limits}
	faced.own = p.group(group)
	for _, override := range given.Overrides {
		if override.Unlimited {
			continue
		}
		group.Override, group.Limits = override.Key, likeAll(override.Limits, given.Limits)
		faced.overrides[override.Key] = p.group(group)
	}
	group.Override = ""
	for _, plan := range given.RequestPlans() {
		if !plan.Unlimited {
			group.Plan, group.Limits = plan.Name, likeAll(plan.Limits, given.Limits)
			faced.plans[plan.Name] = p.group(group)
		}
	}
	for by := policy.ByLimits + 1; by < byCount; by++ {
		faced.listed[by] = p.group(Group{Policy: given.Name, Shadow: given.Shadow, By: by})
	}
	faced.bare = len(given.Overrides) == 0 && len(given.Plans) == 0 && given.Allow.IsZero() && given.Deny.IsZero()
	return faced, nil
}

func (p *Policies) group(g Group) int {
	p.groups = append(p.groups, g)
	return len(p.groups) - 1
}

// Groups returns the groups of all policies. The first is the first policy's own. They are shared and must not be changed.
func (p *Policies) Groups() []Group { return p.groups }

// Len returns how many policies there are.
func (p *Policies) Len() int { return len(p.list) }

// Policy returns one of the policies.
func (p *Policies) Policy(i int) config.Policy { return p.list[i].Policy }

// Of returns the group of a key under a policy. The address is the client's, for the lists; the zero value is on none. The plan is
// what the request says of its plan; empty if it says nothing.
func (p *Policies) Of(i int, key []byte, address netip.Addr, plan []byte) (group int) {
	faced := p.list[i]
	if faced.bare {
		return faced.own
	}
	part := policy.Part{Policy: i, Key: string(key), Address: address}
	if found, ok := faced.find(string(plan)); ok {
		part.Plan = policy.Named(found.Name)
	}
	by, override, _ := p.set.Route(part)
	if by != policy.ByLimits {
		return faced.listed[by]
	}
	if group, ok := faced.overrides[override]; ok && (override != "" || len(key) == 0) {
		return group
	}
	if group, ok := faced.plans[part.Plan.Name()]; ok && !p.set.Overridden(i, part.Key) {
		return group
	}
	return faced.own
}

// pattern is which requests a policy is for.
type pattern struct {
	matcher *httplimit.Matcher // nil if it is for all
	needs   Known
	samples []sample // one for each of the policy's patterns
}

// sample is a request that a pattern is for, in parts.
type sample struct{ method, host, path string }
