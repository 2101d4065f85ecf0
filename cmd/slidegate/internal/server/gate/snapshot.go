package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/policy"
)

// snapshot is all that one file says, compiled. It does not change: an ask takes one and keeps to it.
type snapshot struct {
	file     *config.File
	set      *policy.Set
	policies map[string]*compiled
	order    []*compiled
	names    []string
	standard *compiled // for asks that name none; nil if they must
	source   *clientip.Source
}

// compiled is a config.Policy made ready. It does not change.
type compiled struct {
	config.Policy
	place   int // among the policies
	matcher *httplimit.Matcher
	key     httplimit.Key
	fixed   int64 // Cost
}

// build compiles a file. Limits that the last snapshot has too stay the same to the stores, which remember things about
// them.
func (g *Gate) build(file *config.File, last *snapshot) (*snapshot, error) {
	if file == nil {
		return nil, fmt.Errorf("gate: file: must not be nil; config.Load reads one")
	}
	s := &snapshot{file: file, policies: map[string]*compiled{}, source: g.opts.Source}
	if len(file.Policies) == 0 {
		return nil, fmt.Errorf("gate: there are no policies; give at least one")
	}
	var err error
	if s.source == nil {
		if s.source, err = file.Service.Client(); err != nil {
			return nil, fmt.Errorf("gate: %w", err)
		}
	}
	var rules []policy.Policy
	for i := range file.Policies {
		p, one, err := s.policy(&file.Policies[i])
		if err != nil {
			return nil, fmt.Errorf("gate: %w", err)
		}
		p.place = i
		s.policies[p.Name], s.order, s.names = p, append(s.order, p), append(s.names, p.Name)
		one.Count = g.metrics.tallyOf(p.Name).count
		rules = append(rules, one)
	}
	var opts policy.Options
	if last != nil {
		opts.Before = last.set
	}
	if s.set, err = policy.NewOver(g.stores, rules, opts); err == nil && (g.opts.Requests || s.matches()) {
		err = s.set.CheckTogether(func(made, other int) bool {
			return s.order[other].matcher.Match(s.order[made].matcher.Sample())
		})
	}
	if err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	return s, s.findStandard()
}

// policy compiles one policy, but for its limits.
func (s *snapshot) policy(given *config.Policy) (*compiled, policy.Policy, error) {
	p := &compiled{Policy: *given}
	rules, err := given.Rules(s.file.Service.Failure)
	if err != nil {
		return nil, rules, err
	}
	http, err := given.HTTP(s.source)
	if err != nil {
		return nil, rules, err
	}
	if p.matcher, err = httplimit.NewMatcher(given.Match); err != nil {
		return nil, rules, fmt.Errorf("policy %q: %w", given.Name, err)
	}
	p.key = http.Key
	p.fixed, _ = given.Cost.Fixed()
	return p, rules, nil
}

// matches reports whether a policy says which requests it is for: where none does, policies may all be asked by name.
func (s *snapshot) matches() bool {
	return slices.ContainsFunc(s.order, func(p *compiled) bool { return p.matcher != nil })
}

// findStandard finds the policy for asks that name none.
func (s *snapshot) findStandard() error {
	s.standard = s.policies["default"]
	if len(s.order) == 1 {
		s.standard = s.order[0]
	}
	if name := s.file.Service.Default; name != "" {
		if s.standard = s.policies[name]; s.standard == nil {
			return fmt.Errorf("gate: default_policy: %w", s.unknown(name))
		}
	}
	return nil
}

// find returns the policy of that name, or the one for asks that name none.
func (s *snapshot) find(name string) (*compiled, error) {
	if name == "" && s.standard != nil {
		return s.standard, nil
	}
	if p := s.policies[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("gate: %w", s.unknown(name))
}

// unknown is the error about a name that no policy has.
func (s *snapshot) unknown(name string) error {
	_, err := s.file.Policy(name)
	return fmt.Errorf("%w: %s", ErrPolicy, strings.TrimPrefix(err.Error(), "config: "))
}
