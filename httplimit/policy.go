package httplimit

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// Policy is a named set of limits with a rule that makes the key, and which requests it is for. The zero value limits
// every request by its address to the limiter's own limits.
type Policy struct {
	// Name tells policies apart, in state, headers and events. It is required where there are several.
	Name string
	// Match is a pattern as http.ServeMux takes it, such as "POST /login" or "/api/"; empty means every request. Path and
	// host are what the client wrote, cleaned as ServeMux does: a router that takes /LOGIN or /login/ for /login too, or
	// another spelling of the host, has a way around it. Wrap its routes one by one instead.
	Match string
	// Skip lets a request off; nil lets none off.
	Skip func(*http.Request) bool
	// Key says who a request is of; nil means Address(nil).
	Key Key
	// Limits are what every key faces, all at once; if empty, the limiter's own.
	Limits []slidegate.Limit
	// Plan returns the limits of one request, for users with different plans; nil, or nothing returned, means Limits, which
	// are required for that. A limit of the same name and shape keeps what was used when the plan changes.
	Plan func(*http.Request) []slidegate.Limit
	// Cost is how many units a request takes; nil means 1. A cost of 0 is let through, and only told about. One below 0, as
	// the ContentLength of a body of unknown length is, counts as 1.
	Cost func(*http.Request) int64
	// After returns what a request did cost once its response is written; nil leaves it at Cost. The difference is given
	// back or charged, beyond the quota if need be. CostOfBytes, CostIfStatus and CostSaid are the usual ones.
	After After
	// Shadow decides and reports, and never refuses: to try a policy on real traffic.
	Shadow bool
}

// policy is a Policy made ready.
type policy struct {
	Policy
	limiter *slidegate.Limiter
	limits  []slidegate.Limit // those of limiter, with the names that state belongs to
	items   []*HeaderItem     // the same, as header fields write them
	mux     *http.ServeMux    // knows Match; nil if that is empty
	plans   HeaderItems       // of all limits so far, by the limits as they were given
}

// matches tells whether the policy is for this request.
func (p *policy) matches(r *http.Request) bool {
	if p.mux != nil {
		if _, pattern := p.mux.Handler(r); pattern == "" {
			return false
		}
	}
	return p.Skip == nil || !p.Skip(r)
}

func (p *policy) cost(r *http.Request) int64 {
	if p.Cost == nil {
		return 1
	}
	cost := p.Cost(r)
	if cost < 0 {
		return 1
	}
	return min(cost, rule.MaxQuota) // more is no cost, and the error would let pass what is to be refused
}

// plan returns the limits of one request, or nil if they are those of p.limiter.
func (p *policy) plan(r *http.Request) []slidegate.Limit {
	if p.Plan == nil {
		return nil
	}
	return p.Plan(r)
}

// newPolicy makes a policy ready, or says what is wrong with it.
func newPolicy(limiter *slidegate.Limiter, given Policy, several bool) (*policy, error) {
	p := &policy{Policy: given}
	if several && p.Name == "" {
		return nil, fmt.Errorf("httplimit: policy name: is missing, and there are several policies: give each its own")
	}
	if p.Key == nil {
		p.Key = Address(nil)
	}
	limits := given.Limits
	if len(limits) == 0 {
		limits = limiter.Limits()
	}
	if len(limits) == 0 {
		return nil, fmt.Errorf("httplimit: policy %q: there is no limit: give it Limits, or give the limiter some", p.Name)
	}
	var err error
	if p.limits, p.items, err = p.planned(limits); err != nil {
		return nil, err
	}
	if p.limiter, err = limiter.With(p.limits...); err != nil {
		return nil, fmt.Errorf("httplimit: policy %q: %w", p.Name, err)
	}
	if p.Match != "" {
		p.mux, err = newMatch(p.Match)
	}
	return p, err
}

// checkNames returns an error if the counts of two policies could have the same name. A slash stands between the names of
// a policy and of its limit, so a limit x of the policy api is called what the policy api/x is.
func checkNames(policies []*policy) error {
	for i, p := range policies {
		for _, other := range policies[:i] {
			switch {
			case p.Name == other.Name:
				return fmt.Errorf("httplimit: policy name: %q is there twice: give each its own", p.Name)
			case strings.HasPrefix(p.Name, other.Name+"/"), strings.HasPrefix(other.Name, p.Name+"/"):
				return fmt.Errorf("httplimit: policy name: %q and %q: one must not be the other's and a slash", other.Name, p.Name)
			}
		}
	}
	return nil
}

// always tells whether every request faces the policy.
func (p *policy) always() bool { return p.Match == "" && p.Skip == nil && !p.Shadow }

// newMatch returns a mux that knows one pattern.
func newMatch(pattern string) (mux *http.ServeMux, err error) {
	defer func() {
		if wrong := recover(); wrong != nil { // that is how ServeMux tells
			err = fmt.Errorf("httplimit: policy match: %q: %v", pattern, wrong)
		}
	}()
	mux = http.NewServeMux()
	mux.Handle(pattern, http.NotFoundHandler())
	return mux, nil
}
