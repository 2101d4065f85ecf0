package gate

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/latency"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/config/errtext"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// snapshot is one file, compiled. It is immutable: each request uses one snapshot throughout.
type snapshot struct {
	file          *config.File
	set           *policy.Set
	policies      map[string]*compiled
	order         []*compiled
	names         []string
	defaultPolicy *compiled // for requests that name no policy; nil if they must name one
	source        *clientip.Source
	headers       []string // headers that determine keys, plans and costs
	release       func()   // releases the capacity that prepare reserved; nil before prepare
}

// compiled is a config.Policy ready for use. It is immutable.
type compiled struct {
	config.Policy
	index          int // index in the list of policies
	matcher        *httplimit.Matcher
	skip           func(*http.Request) bool // reports whether a request that matches is exempt; nil if none is
	key            httplimit.Key
	cost           func(*http.Request) int64                // nil if every request costs 1
	plan           func(*http.Request) (policy.Plan, error) // nil if there are no plans, or if keys select them
	find           func(value string) (config.Plan, bool)   // the plan that a value selects
	slots          bool                                     // the policy has an in-flight limit
	candidateSlots bool                                     // the candidate has one
	groups         clientip.Grouping
	byAddress      bool                          // a key without a mark is an address, or what an application sends instead
	listed         bool                          // the lists have addresses
	words          *httplimit.RefusalTexts       // nil for the default texts
	latency        [listeners]*latency.Histogram // nil if nothing is timed
}

// build compiles a file. Limits that the last snapshot also has keep their identity, since stores keep state about
// them.
func (g *Gate) build(file *config.File, last *snapshot) (*snapshot, error) {
	switch {
	case file == nil:
		return nil, invalid("file", "must not be nil; config.Load reads one")
	case len(file.Policies) == 0:
		return nil, invalid("policies", "no policies; give at least one")
	}
	options, err := config.HTTP(file)
	if err != nil {
		return nil, err
	}
	s := &snapshot{file: file, policies: map[string]*compiled{}, source: options.Client, headers: file.Headers()}
	var rules []policy.Policy
	for i, one := range options.Policies {
		p := &compiled{Policy: file.Policies[i], index: i, key: one.Key, skip: one.Skip, cost: one.Cost, plan: one.Plan, groups: file.Service.AddressGroups}
		if p.matcher, err = httplimit.NewMatcher(p.Patterns()...); err != nil {
			return nil, inPolicy(p.Name, invalid("match", "%w", err))
		}
		if p.words, err = one.Refusal.Texts(p.Name); err != nil {
			return nil, inPolicy(p.Name, invalid("refusal", "%w", err))
		}
		p.byAddress, p.listed = p.Key.Alternatives()[0].String() == "{address}", len(p.Allow.Addresses)+len(p.Deny.Addresses) > 0
		p.find = p.FindPlan()
		p.slots, p.candidateSlots = HasSlots(&p.Policy), CandidateHasSlots(&p.Policy)
		s.policies[p.Name], s.order, s.names = p, append(s.order, p), append(s.names, p.Name)
		for listener, name := range listenerNames {
			if g.opts.Latency != nil && (Listener(listener) == Proxy) == g.opts.Requests {
				p.latency[listener] = g.opts.Latency.Of(name, p.Name)
			}
		}
		rules = append(rules, one.Rules())
		rules[i].Count = g.metrics.tallyOf(p.Name, len(p.Candidate) > 0).count
	}
	opts := policy.Options{Failure: options.Failure}
	if last != nil {
		opts.Before = last.set
	}
	if s.set, err = policy.NewWithStores(g.stores, rules, opts); err == nil && (g.opts.Requests || s.matches()) {
		err = s.checkTogether()
	}
	var wrong *policy.Error
	switch {
	case errors.As(err, &wrong):
		return nil, inPolicy(wrong.Policy, invalid(wrong.Option, "%w", wrong.Err))
	case err != nil:
		return nil, invalid("policies", "%w", err)
	}
	return s, s.findDefault()
}

// prepare reserves capacity in the stores for all limits of the file, so that limits sent with requests cannot use it
// up.
func (s *snapshot) prepare(stores Stores) {
	var limits []*store.Limit
	for i := range s.order {
		bound := s.set.BoundLimits(i)
		limits = append(limits, bound...)
		if metrics, ok := store.As[announcer](storeOf(stores, s.set.Mode(i))); ok {
			metrics.Announce(bound)
		}
	}
	var releases []func()
	for _, st := range []store.Store{stores.Open, stores.Closed, stores.Local, stores.Optimistic} {
		if preparer, ok := store.As[store.Preparer](st); ok {
			releases = append(releases, preparer.Prepare(limits))
		}
	}
	s.release = func() {
		for _, release := range releases {
			release()
		}
	}
}

// announcer is a store whose metrics have series for limits that have not been used yet; see layer/observe.
type announcer interface{ Announce(limits []*store.Limit) }

// storeOf returns the store of the policies of a failure mode.
func storeOf(stores Stores, mode policy.Mode) store.Store {
	switch mode {
	case policy.Closed:
		return stores.Closed
	case policy.Local:
		return stores.Local
	case policy.Optimistic:
		return stores.Optimistic
	}
	return stores.Open
}

// checkTogether returns an error if a request can match policies that the store cannot decide together.
func (s *snapshot) checkTogether() error {
	var matchers []*httplimit.Matcher
	for _, p := range s.order {
		matchers = append(matchers, p.matcher)
	}
	samples, matches := httplimit.Samples(matchers)
	return s.set.CheckTogether(len(samples), matches,
		func(policy, other int) bool { return s.order[policy].Key.String() == s.order[other].Key.String() })
}

// matches reports whether any policy selects requests. If none does, all policies may be meant to be used by name.
func (s *snapshot) matches() bool {
	return slices.ContainsFunc(s.order, func(p *compiled) bool { return p.matcher != nil })
}

// findDefault finds the policy for requests that name none.
func (s *snapshot) findDefault() error {
	s.defaultPolicy = s.policies["default"]
	if len(s.order) == 1 {
		s.defaultPolicy = s.order[0]
	}
	if name := s.file.Service.Default; name != "" {
		if s.defaultPolicy = s.policies[name]; s.defaultPolicy == nil {
			return invalid("default_policy", "%w", s.unknownPolicy(name))
		}
	}
	return nil
}

// find returns the policy of that name, or the default policy if name is empty.
func (s *snapshot) find(name string) (*compiled, error) {
	if name == "" && s.defaultPolicy != nil {
		return s.defaultPolicy, nil
	}
	if p := s.policies[name]; p != nil {
		return p, nil
	}
	if name == "" {
		return nil, fmt.Errorf("%w, and there are several; name one (%s)", ErrNoPolicy, errtext.OneOf(s.names))
	}
	return nil, s.unknownPolicy(name)
}

// unknownPolicy returns the error for a name that no policy has.
func (s *snapshot) unknownPolicy(name string) error {
	_, err := s.file.Policy(name)
	var why *config.OptionError
	if errors.As(err, &why) {
		err = why.Err
	}
	return fmt.Errorf("%w: %w", ErrPolicy, err)
}

// invalid returns the error of a field of the file.
func invalid(option, format string, args ...any) *config.OptionError {
	return &config.OptionError{Package: "gate", Option: option, Err: fmt.Errorf(format, args...)}
}

// inPolicy returns the error of a field of a policy.
func inPolicy(name string, err *config.OptionError) error {
	err.Within = fmt.Sprintf("policy %q", name)
	return err
}
