package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options configures a Set. The zero value is valid, and admits requests that the store cannot decide.
type Options struct {
	// Failure is the mode of policies that set none; the zero value means Open. Local counts in a memstore that belongs
	// to the Set. It applies to a store that does not already have its own failure layer.
	Failure Mode
	// Timeout is how long a decision may take before it counts as failed. 0 means 100ms for a store with round trips; a
	// store in process is called without a deadline. Negative means no deadline, and then every request calls the
	// store, also during an outage.
	Timeout time.Duration
	// Optimism is how many units of a key this process admits in the mode Optimistic before the store acknowledges them; 0 means
	// DefaultOptimism. See failure.Optimistic. Drain charges what is owed at the end.
	Optimism int64
	// LocalBytes is the maximum memory of the memstore of Local; 0 means the default of memstore.Options.
	LocalBytes int64
	// Prepare is called once for each set of limits of a policy, an override or a plan, and for policies that decide
	// together once for all their limits. Verdict.Note returns its result: header fields, for example. An error makes
	// the limits invalid.
	Prepare func(limits []slidegate.Limit) (note any, err error)
	// Before is the Set that this one replaces: if both have the same store, limits in both keep what the store remembers about
	// them. Drain then waits for the releases of both.
	Before *Set
}

// DefaultOptimism is the number of units that Options.Optimism means if it is 0.
const DefaultOptimism = 10

// Stores are where policies keep their state, by failure mode. All of them must keep it in one place; the same Store
// for all is fine where it does not fail. A nil Store is an error only if a policy needs it.
type Stores struct{ Open, Closed, Local, Optimistic store.Store }

// Set is a set of compiled policies. It does not change, except for rulings, and is safe for concurrent use. The zero value is
// not usable; call New or NewWithStores.
type Set struct {
	opts     Options
	policies []*compiled
	limiter  *slidegate.Limiter // passed to New; nil if the policies have their own namespaces
	stores   [modes]store.Store
	traits   [modes]store.Traits
	bases    map[baseID]*slidegate.Limiter
	lastErrs [modes]atomic.Pointer[error] // the last error for which the failure layer of a mode decided
	joints   memo[jointID]
	requests sync.Pool        // of *Request
	releases *releases        // releases of slots under way; also those of the Set before
	owing    []*failure.Store // this Set's own layers that charge later
	bottom   store.Store      // below all layers
	sharer   *sharer
	warned   sync.Map // the sharers of Sets around this one that were logged

	penaltyErrorLogged atomic.Int64 // when a failed penalty was last logged, in nanoseconds of Unix time
}

// baseID identifies a limiter of a Set.
type baseID struct {
	namespace string
	mode      Mode
}

// New compiles policies over a limiter. They share its namespace, and the name of a policy precedes the names of its
// limits. A limit that the store does not support is an error, and so are limits of the limiter's own that no policy uses,
// because all of them have other ones.
func New(limiter *slidegate.Limiter, policies []Policy, opts Options) (*Set, error) {
	if limiter == nil {
		return nil, errors.New("policy: limiter: must not be nil; use slidegate.New")
	}
	s, err := (&Set{opts: opts, limiter: limiter}).compile(policies)
	if err != nil {
		return nil, err
	}
	if len(limiter.Limits()) > 0 && len(policies) > 0 && !slices.ContainsFunc(policies, func(p Policy) bool { return len(p.Limits) == 0 }) {
		return nil, errors.New("policy: limits: no policy uses the limiter's own limits, since each has others; " +
			"leave them out of a policy that is meant to use them, or create the limiter by slidegate.NewPerCall")
	}
	return s, nil
}

// NewWithStores compiles policies over stores that have their own failure modes. The name of a policy is the namespace of its
// limits.
func NewWithStores(stores Stores, policies []Policy, opts Options) (*Set, error) {
	s := &Set{opts: opts}
	s.stores = [modes]store.Store{Open: stores.Open, Local: stores.Local, Optimistic: stores.Optimistic, Closed: stores.Closed}
	return s.compile(policies)
}

// maxTimeout is the longest timeout that layer/failure accepts.
const maxTimeout = 24 * time.Hour

func (s *Set) compile(policies []Policy) (*Set, error) {
	if s.opts.Failure >= modes {
		return nil, fmt.Errorf("policy: failure: unknown mode %d; want Open, Local, Optimistic or Closed", s.opts.Failure)
	}
	if s.opts.Timeout > maxTimeout {
		return nil, fmt.Errorf("policy: timeout: must be at most %v, not %v; 0 means 100ms", maxTimeout, s.opts.Timeout)
	}
	if s.opts.Optimism < 0 || s.opts.Optimism > rule.MaxQuota {
		return nil, fmt.Errorf("policy: optimism: must be 1 to %d units, or 0 for %d, not %d", int64(rule.MaxQuota), DefaultOptimism, s.opts.Optimism)
	}
	s.bases, s.sharer, s.releases = map[baseID]*slidegate.Limiter{}, new(sharer), new(releases)
	if s.opts.Before != nil {
		s.releases = s.opts.Before.releases
	}
	s.requests.New = func() any { return new(Request) }
	for i, given := range policies {
		if err := s.checkName(given.Name); err != nil {
			return nil, fmt.Errorf("policy: name: %w", err)
		}
		if err := checkNameDistinct(policies, i); err != nil {
			return nil, err
		}
		p, err := s.policy(given)
		if err != nil {
			err.Policy = given.Name
			return nil, err
		}
		p.index = i
		s.policies = append(s.policies, p)
	}
	for mode, on := range s.stores {
		if on != nil {
			s.traits[mode] = on.Traits()
		}
	}
	s.addToRegister()
	s.opts.Before = nil // otherwise every earlier set would stay in memory
	return s, nil
}

// Error reports a policy that cannot be compiled.
type Error struct {
	Policy string // its name
	Option string // limits, overrides, plans, allow, deny, candidate, penalty or failure
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("policy %q: %s: %v", e.Policy, e.Option, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// checkNameDistinct returns an error if the counts of a policy and of an earlier one could have the same name. A slash
// separates the name of a policy and of its limit, so a limit x of the policy api has the same name as the policy
// api/x.
func checkNameDistinct(policies []Policy, i int) error {
	name := policies[i].Name
	if name == "" && len(policies) > 1 {
		return errors.New("policy: name: missing, but there are several policies; give each its own name")
	}
	for _, other := range policies[:i] {
		switch {
		case name == other.Name:
			return fmt.Errorf("policy: name: duplicate %q; give each policy its own", name)
		case strings.HasPrefix(name, other.Name+"/"), strings.HasPrefix(other.Name, name+"/"):
			return fmt.Errorf("policy: name: %q and %q: the name of a policy must not be a path prefix of another's", other.Name, name)
		}
	}
	return nil
}

// CheckTogether returns an error if one of the sample requests has more limits than the store decides together, or policies
// with different keys on a store that decides one key at a time. applies reports whether the policy at that index applies to a
// sample. sameKey reports whether two policies use the same key for every request; nil means that requests have a group.
func (s *Set) CheckTogether(samples int, applies func(sample, policy int) bool, sameKey func(policy, other int) bool) error {
	for i := range samples {
		var names []string
		charges, mode, first, together := 0, Open, -1, true
		for j, other := range s.policies {
			if other.shadow || !applies(i, j) {
				continue
			}
			if first < 0 {
				first = j
			}
			names = append(names, other.name)
			charges += other.maxLimits()
			mode = max(mode, other.mode)
			together = together && (sameKey == nil || j == first || sameKey(first, j))
		}
		err := s.checkCharges(charges, mode)
		if err == nil && !together && s.traits[mode].OneKey {
			err = s.errKeys(mode)
		}
		if err != nil {
			return fmt.Errorf("policies %q: %w", names, err)
		}
	}
	return nil
}

// errKeys returns the error for policies that the store cannot decide together because their keys differ.
func (s *Set) errKeys(mode Mode) error {
	return fmt.Errorf("policy: %w: one request matches all of them and their keys differ, but the %s store decides one "+
		"key at a time; give them the same key, let no request match several of them, or choose a store that decides several keys together "+
		"(memory, Redis, PostgreSQL)", slidegate.ErrUnsupported, s.traits[mode].Name)
}

// checkCharges returns an error if the store cannot decide that many charges together.
func (s *Set) checkCharges(charges int, mode Mode) error {
	if charges == 0 {
		return nil
	}
	if traits := &s.traits[mode]; charges > traits.MaxCharges {
		return fmt.Errorf("policy: %w: %d limits at once, the %s store decides at most %d atomically",
			slidegate.ErrUnsupported, charges, traits.Name, traits.MaxCharges)
	}
	return nil
}
