package gate

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/match"
	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/internal/reply"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// snapshot is one file, compiled. It is immutable: each request uses one snapshot throughout.
type snapshot struct {
	file          *config.File
	set           *engine.Set
	policies      map[string]*livePolicy
	order         []*livePolicy
	names         []string
	defaultPolicy *livePolicy // for requests that name no policy; nil if they must name one
	source        *clientip.Source
	longestWait   time.Duration // of the policies
	headers       []string      // headers that determine keys, plans and costs
	release       func()        // releases the capacity that prepare reserved; nil before prepare
}

// livePolicy is a config.Policy ready for use. It is immutable.
type livePolicy struct {
	config.Policy
	index     int // index in the list of policies
	matcher   *match.Matcher
	skip      func(*http.Request) bool // reports whether a request that matches is exempt; nil if none is
	key       httplimit.Key
	cost      func(*http.Request) int64                // nil if every request costs 1
	plan      func(*http.Request) (policy.Plan, error) // nil if there are no plans, or if keys select them
	findPlan  func(value string) (policy.Plan, bool)   // the plan that a value selects
	slots     bool                                     // the policy has an in-flight limit
	holds     bool                                     // requests hold slots, or units of a limit with Hold
	held      *atomic.Int64                            // how many requests hold some of them now
	line      *engine.Line
	groups    clientip.Grouping
	byAddress bool         // a key without a mark is an address, or what an application sends instead
	listed    bool         // the lists have addresses
	words     *reply.Texts // nil for the default texts
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
	options, err := config.HTTP(withoutNotify(file))
	if err != nil {
		return nil, err
	}
	s := &snapshot{file: file, policies: map[string]*livePolicy{}, source: options.Client, headers: file.Headers()}
	var rules []engine.Spec
	for i, one := range options.Policies {
		p := &livePolicy{Policy: file.Policies[i], index: i, key: one.Key, skip: one.Skip, cost: one.Cost, plan: one.Plan, groups: file.Service.AddressGroups}
		if p.matcher, err = match.New(p.Patterns()...); err != nil {
			return nil, inPolicy(p.Name, invalid("match", "%w", err))
		}
		if p.words, err = reply.Refusal(one.Refusal).Prepare(p.Name); err != nil {
			return nil, inPolicy(p.Name, invalid("refusal", "%w", err))
		}
		p.byAddress, p.listed = p.Key.Alternatives()[0].String() == "{address}", len(p.Allow.Addresses)+len(p.Block.Addresses) > 0
		p.findPlan = p.FindPlan()
		p.slots = hasSlots(&p.Policy)
		s.longestWait = max(s.longestWait, p.Wait)
		s.policies[p.Name], s.order, s.names = p, append(s.order, p), append(s.names, p.Name)
		rules = append(rules, one.Rules())
		tally := g.metrics.tallyOf(p.Name)
		rules[i].Count, rules[i].Line, p.line, p.held = tally.count, &tally.line, &tally.line, &tally.held
		rules[i].Notify, rules[i].Crossed = p.Notify, tally.crossed
		for _, t := range p.Notify {
			tally.addNear(t.Percent, 0)
		}
	}
	opts := engine.Options{Failure: cmp.Or(options.Failure, store.FailLocal), Closing: g.opts.Closing}
	if last != nil {
		opts.Before = last.set
	}
	if s.set, err = engine.NewOver(g.store, rules, opts); err == nil && (g.opts.Requests || s.matches()) {
		err = s.checkTogether()
	}
	for _, p := range s.order {
		p.holds = err == nil && s.set.Holds(p.index)
	}
	var wrong *engine.Error
	switch {
	case errors.As(err, &wrong):
		return nil, inPolicy(wrong.Policy, invalid(wrong.Option, "%w", wrong.Err))
	case err != nil:
		return nil, invalid("policies", "%w", err)
	}
	return s, s.findDefault()
}

// withoutNotify returns a file for config.HTTP, whose caller is usually a middleware, which watches no thresholds.
func withoutNotify(file *config.File) *config.File {
	plain := *file
	plain.Policies = slices.Clone(file.Policies)
	for i := range plain.Policies {
		plain.Policies[i].Notify = nil
	}
	return &plain
}

// prepare reserves capacity in the store for all limits of the file, so that limits sent with requests cannot use it up.
func (s *snapshot) prepare(st store.Store) {
	var limits []*store.Limit
	for i := range s.order {
		limits = append(limits, s.set.BoundLimits(i)...)
	}
	s.release = Prepare(st, limits)
}

// Prepare reserves capacity in a store for limits until release is called, and starts their metrics at 0.
func Prepare(st store.Store, limits []*store.Limit) (release func()) {
	if metrics, ok := store.As[announcer](st); ok {
		metrics.Announce(limits)
	}
	if preparer, ok := store.As[store.Preparer](st); ok {
		return preparer.Prepare(limits)
	}
	return func() {}
}

// announcer is a store whose metrics have series for limits that have not been used yet; see layer/observe.
type announcer interface{ Announce(limits []*store.Limit) }

// checkTogether returns an error if a request can match policies that the store cannot decide together.
func (s *snapshot) checkTogether() error {
	var matchers []*match.Matcher
	for _, p := range s.order {
		matchers = append(matchers, p.matcher)
	}
	samples, matches := match.Samples(matchers)
	return s.set.CheckTogether(len(samples), matches,
		func(policy, other int) bool { return s.order[policy].Key.String() == s.order[other].Key.String() })
}

// matches reports whether any policy selects requests. If none does, all policies may be meant to be used by name.
func (s *snapshot) matches() bool {
	return slices.ContainsFunc(s.order, func(p *livePolicy) bool { return p.matcher != nil })
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
func (s *snapshot) find(name string) (*livePolicy, error) {
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
	var why *options.Error
	if errors.As(err, &why) {
		err = why.Err
	}
	return fmt.Errorf("%w: %w", ErrPolicy, err)
}

// invalid returns the error of a field of the file.
func invalid(option, format string, args ...any) *options.Error {
	return &options.Error{Package: "gate", Option: option, Err: fmt.Errorf(format, args...)}
}

// inPolicy returns the error of a field of a policy.
func inPolicy(name string, err *options.Error) error {
	err.Within = fmt.Sprintf("policy %q", name)
	return err
}

// SlotPolicies returns the names of the policies of a file that have an in-flight limit, their own or one of an override or a plan.
func SlotPolicies(file *config.File) (names []string) {
	for i := range file.Policies {
		if p := &file.Policies[i]; hasSlots(p) {
			names = append(names, p.Name)
		}
	}
	return names
}

func hasSlots(p *config.Policy) bool {
	return slices.ContainsFunc(p.Limits, isInFlight) ||
		slices.ContainsFunc(p.Overrides, func(o policy.Override) bool { return slices.ContainsFunc(o.Limits, isInFlight) }) ||
		slices.ContainsFunc(p.Plans, func(plan policy.Plan) bool { return slices.ContainsFunc(plan.Limits, isInFlight) })
}

func isInFlight(l slidegate.Limit) bool { return l.Algorithm == slidegate.InFlight }

// Trusts reports whether an address is one of the file's trusted proxies, and whether the file has a list of them, even an empty one.
func (g *Gate) Trusts(addr netip.Addr) (trusted, listed bool) {
	proxies := g.current.Load().file.Service.TrustedProxies
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return keyform.Unmap(p).Contains(addr) }), proxies != nil
}

// addressMark precedes the address in the key of a client that has no name.
const addressMark = "address:"

// addressNote is the note of an explanation that leaves lists of addresses out.
const addressNote = "the key does not tell the client's address, so the addresses in allow and block are not applied here; explain --request with --address applies them"

// addressIn returns the client's address if the key is one, as an application sends it or as requests have it. The lists of
// addresses then apply to a client that is known by its key only as they do to its requests.
func (p *livePolicy) addressIn(key string) netip.Addr {
	rest, marked := strings.CutPrefix(key, addressMark)
	if !marked && !p.byAddress {
		return netip.Addr{}
	}
	addr, _ := clientip.Parse(rest) // a group of addresses is none
	return addr
}
