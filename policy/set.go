package policy

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options configure a Set. The zero value admits requests that the store cannot decide.
type Options struct {
	// Failure is the mode of policies that do not say; the zero value means Open. Local counts in a memstore that the Set
	// has for itself. It applies to a store that is not already under a failure layer of its own.
	Failure Mode
	// Timeout is how long a decision may take before it counts as failed. 0 means 100ms for a store with round trips; a
	// store in process is asked without a deadline. Negative means no deadline, and then every request asks the store, also
	// during an outage.
	Timeout time.Duration
	// Optimism is how many units of a key this process admits in the mode Optimistic that the store has not acknowledged; 0 means
	// DefaultOptimism. See failure.Optimistic. Drain charges what is owed at the end.
	Optimism int64
	// LocalBytes is how much memory the memstore of Local takes at most; 0 means what memstore.Options do.
	LocalBytes int64
	// Prepare is called once for each set of limits that a policy, an override or a plan has, and for policies that decide
	// together once for all their limits. What it returns is Verdict.Note: header fields, say. An error makes the limits
	// invalid.
	Prepare func(limits []slidegate.Limit) (note any, err error)
	// Before is the Set that this one replaces: what stores remember about limits stays with those that are in
	// both, if both have the same store. Drain then waits for the releases of either.
	Before *Set
}

// DefaultOptimism is how many units Options.Optimism stands for if it is 0.
const DefaultOptimism = 10

// Stores are where policies keep their state, by what happens when the store cannot answer. All of them keep it in one place;
// the same Store for all is fine where it does not fail. A nil one is an error only if a policy needs it.
type Stores struct{ Open, Closed, Local, Optimistic store.Store }

// Set is compiled policies. It does not change, but for rulings, and is safe for concurrent use. The zero value is not usable; New and
// NewOver make it.
type Set struct {
	opts     Options
	policies []*compiled
	limiter  *slidegate.Limiter // what New was given; nil if the policies have namespaces of their own
	stores   [modes]store.Store
	traits   [modes]store.Traits
	bases    map[baseID]*slidegate.Limiter
	why      [modes]atomic.Pointer[error] // the last error that the failure layer of a mode answered
	joints   memo[jointID]
	requests sync.Pool        // of *Request
	releases *releases        // of slots, under way; those of the Set before too
	owing    []*failure.Store // layers of this Set's own that charge later
	bottom   store.Store      // below all layers
	sharer   *sharer
	warned   sync.Map // the sharers of Sets around this one that were logged

	unpunished atomic.Int64 // when it was last logged that a penalty failed, in nanoseconds of Unix time
}

// baseID distinguishes the limiters of a Set.
type baseID struct {
	namespace string
	mode      Mode
}

// New compiles policies over a limiter. They share its namespace, and the name of a policy stands before the names of its
// limits. A limit that the store cannot keep is an error.
func New(limiter *slidegate.Limiter, policies []Policy, opts Options) (*Set, error) {
	if limiter == nil {
		return nil, errors.New("policy: limiter: must not be nil; slidegate.New makes one")
	}
	return (&Set{opts: opts, limiter: limiter}).compile(policies)
}

// NewOver compiles policies over stores that know themselves what to do when they cannot answer. The name of a policy is
// the namespace of its limits.
func NewOver(stores Stores, policies []Policy, opts Options) (*Set, error) {
	s := &Set{opts: opts}
	s.stores = [modes]store.Store{Open: stores.Open, Local: stores.Local, Optimistic: stores.Optimistic, Closed: stores.Closed}
	return s.compile(policies)
}

// maxTimeout is the longest that layer/failure takes.
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
		if err := checkNameApart(policies, i); err != nil {
			return nil, err
		}
		p, err := s.policy(given)
		if err != nil {
			err.Policy = given.Name
			return nil, err
		}
		p.place = i
		s.policies = append(s.policies, p)
	}
	for mode, on := range s.stores {
		if on != nil {
			s.traits[mode] = on.Traits()
		}
	}
	s.enter()
	s.opts.Before = nil // or every earlier set would stay in memory
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

// checkNameApart returns an error if the counts of a policy and of one before it could have the same name. A slash stands
// between the names of a policy and of its limit, so a limit x of the policy api is called what the policy api/x is.
func checkNameApart(policies []Policy, i int) error {
	name := policies[i].Name
	if name == "" && len(policies) > 1 {
		return errors.New("policy: name: is missing, and there are several policies; give each its own")
	}
	for _, other := range policies[:i] {
		switch {
		case name == other.Name:
			return fmt.Errorf("policy: name: %q is there twice; give each its own", name)
		case strings.HasPrefix(name, other.Name+"/"), strings.HasPrefix(other.Name, name+"/"):
			return fmt.Errorf("policy: name: %q and %q: the name of a policy must not be a path prefix of another's", other.Name, name)
		}
	}
	return nil
}

// CheckTogether returns an error if one of so many sample requests faces more limits than the store decides at once, or policies
// that count by different keys where the store decides only one key at once. Faces reports whether a sample faces the policy at
// that place. SameKey reports whether two policies count every request by the same key; nil means that requests have a group.
func (s *Set) CheckTogether(samples int, faces func(sample, policy int) bool, sameKey func(policy, other int) bool) error {
	for i := range samples {
		var names []string
		charges, mode, first, together := 0, Open, -1, true
		for j, other := range s.policies {
			if other.shadow || !faces(i, j) {
				continue
			}
			if first < 0 {
				first = j
			}
			names = append(names, other.name)
			charges += other.most()
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

// errKeys is the error of policies that the store cannot decide together because their keys differ.
func (s *Set) errKeys(mode Mode) error {
	return fmt.Errorf("policy: %w: one request faces all of them and they count by different keys, but the %s store decides limits of one "+
		"key at once; give them the same key, let no request match several of them, or choose a store that decides several keys at once "+
		"(memory, Redis, PostgreSQL)", slidegate.ErrUnsupported, s.traits[mode].Name)
}

// checkCharges returns an error if the store cannot decide so many charges at once.
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
