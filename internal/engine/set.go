package engine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/layer/stack"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// planName returns the name of the plan that r belongs to, or "" if there is none or r is nil.
func (r *bundle) planName() string {
	if r == nil {
		return ""
	}
	return r.plan
}

// Names returns the names of the policies, by index.
func (s *Set) Names() []string {
	names := make([]string, len(s.policies))
	for i, p := range s.policies {
		names[i] = p.name
	}
	return names
}

// hasSlots reports whether the policy itself or an override has an in-flight limit.
func (p *compiledPolicy) hasSlots() bool {
	return p.own.slots || slices.ContainsFunc(p.ordered, func(r *bundle) bool { return r.slots })
}

// Set is a set of compiled policies. It does not change, except for rulings, and is safe for concurrent use. The zero value is
// not usable; call New or NewOver.
type Set struct {
	opts         Options
	policies     []*compiledPolicy
	limiter      *slidegate.Limiter     // passed to New; nil if the policies have their own namespaces
	given        store.Store            // passed to NewOver, or the limiter's
	store        store.Store            // the same with its layers
	layers       *stack.Store           // those that New has put over it; nil if there are none
	lastErr      *atomic.Pointer[error] // the last error for which these layers decided
	guarded      bool                   // the store has a failure layer, so that limits need their modes
	mode         store.Mode             // of policies that set none
	traits       store.Traits
	bases        map[baseID]*slidegate.Limiter
	joints       memo[jointID]
	transactions sync.Pool // of *Transaction
	releases     *releases // releases of slots under way; also those of the Set before

	penaltyErrorLogged atomic.Int64 // when a failed penalty was last logged, in nanoseconds of Unix time
}

// baseID identifies a limiter of a Set.
type baseID struct {
	namespace string
	mode      store.Mode
}

// errKeys returns the error for policies that the store cannot decide together because their keys differ.
func (s *Set) errKeys() error {
	return fmt.Errorf("policy: %w: one request matches all of them and their keys differ, but the %s store decides one "+
		"key at a time; give them the same key, let no request match several of them, or choose a store that decides several keys together "+
		"(memory, Redis, PostgreSQL)", slidegate.ErrUnsupported, s.traits.Name)
}

// checkCharges returns an error if the store cannot decide that many charges together.
func (s *Set) checkCharges(charges int) error {
	if charges > s.traits.MaxCharges {
		return fmt.Errorf("policy: %w: %d limits at once, the %s store decides at most %d atomically",
			slidegate.ErrUnsupported, charges, s.traits.Name, s.traits.MaxCharges)
	}
	return nil
}

// isSlots reports whether a limit is an in-flight limit.
func isSlots(limit *store.Limit) bool { return limit.Rule().Algorithm == rule.InFlight }

// holdsUnits reports whether a limit holds the units of reservations.
func holdsUnits(limit *store.Limit) bool { return limit.Rule().Hold > 0 }

// isRate reports whether a limit is not an in-flight limit.
func isRate(limit *store.Limit) bool { return !isSlots(limit) }

// checkSlots returns an error if an op takes slots of these rules that nothing releases.
func (p *compiledPolicy) checkSlots(op rule.Op, r *bundle, slots Slots) error {
	switch {
	case !r.slots || op == rule.Peek || op == rule.GiveBack || op == rule.Reset:
		return nil
	case slots == SlotsNone:
		return fmt.Errorf("policy %q: %w; use it where requests run, as in a middleware, or acquire and release", p.name, policy.ErrSlots)
	case op != rule.Take:
		return fmt.Errorf("policy %q: %w: it has an in-flight limit, whose slots can only be taken one at a time", p.name, slidegate.ErrUnsupported)
	}
	return nil
}

// compiledPolicy is a compiled Policy. It does not change, except for the plans that it remembers and for rulings.
type compiledPolicy struct {
	set       *Set
	name      string
	mode      store.Mode // 0 if the limiter's store has a failure layer, and the application leaves the mode to it
	shadow    bool
	simple    bool // it has no lists, overrides, penalty, thresholds or in-flight limits
	own       *bundle
	form      keyform.Form // of the keys; nil if the application makes them
	overrides keyform.Table[*bundle]
	named     map[string]*bundle // the plans that the policy lists, by name
	ordered   []*bundle          // all overrides, followed by those plans
	allow     *list
	refuse    *list
	penalty   *store.Limit // nil if there is none
	wait      time.Duration
	line      *Line

	thresholds []policy.Threshold
	counter    func(key string, outcome Outcome)
	crossed    func(key string, limit *store.Limit, percent int)
	plans      memo[planID]
	rulings    atomic.Pointer[rulingSet] // nil if there are no rulings
}

// bundle is the limits that apply together to some keys of a policy: its own limits, or those of an override or a plan.
type bundle struct {
	limiter  *slidegate.Limiter // nil if there is no limit
	bound    []*store.Limit
	limits   []slidegate.Limit
	note     any  // the result of Options.Prepare
	lasts    bool // they belong to the policy, or are remembered, and are not made for one request
	slots    bool // they include an in-flight limit
	holds    bool // they include a limit with Hold
	notify   []threshold
	override int       // the number of the override, from 1: the first that fits applies; 0 if they belong to none
	ruled    bool      // they come from a ruling
	plan     string    // the name of the plan, if they belong to one
	until    time.Time // when a ruling that refuses everything ends; zero if it does not end
}

// Mode returns the failure mode of a policy. 0 means the default of the failure layer that the limiter's store has.
func (s *Set) Mode(policy int) store.Mode { return s.policies[policy].mode }

// Limiter returns the limiter of a policy's own limits.
func (s *Set) Limiter(policy int) *slidegate.Limiter { return s.policies[policy].own.limiter }

// BoundLimits returns all limits of a policy as stores see them: its own, those of its overrides and of its plans in order,
// and that of its penalty.
func (s *Set) BoundLimits(policy int) []*store.Limit {
	p := s.policies[policy]
	bound := slices.Clone(p.own.bound)
	for _, r := range p.ordered {
		bound = append(bound, r.bound...)
	}
	if p.penalty != nil {
		bound = append(bound, p.penalty)
	}
	return bound
}

// HasSlots reports whether a policy has an in-flight limit: among its own limits, or those of its overrides and plans.
// Such limits can decide only a Transaction whose slots are released; see Slots.
func (s *Set) HasSlots(policy int) bool { return slices.ContainsFunc(s.BoundLimits(policy), isSlots) }

// Holds reports whether requests hold something of a policy while they run: slots, or units of a limit with Hold.
func (s *Set) Holds(policy int) bool {
	return s.HasSlots(policy) || slices.ContainsFunc(s.BoundLimits(policy), holdsUnits)
}
