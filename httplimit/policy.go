package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/match"
	"github.com/slidegate/slidegate/internal/reply"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// Policy is a named set of limits, with a rule for the key and a choice of requests it applies to. The zero value is valid: it
// applies the limiter's own limits to every request by its address.
type Policy struct {
	// Name distinguishes policies in state, headers and events. It is required if there are several.
	Name string
	// Match is a pattern of http.ServeMux, such as "POST /login" or "/api/"; empty means every request. "/api" does not match
	// /api/x. Methods are compared without regard to case, and hosts without regard to case and the port; a path that
	// servers read in several ways, as with encoded slashes or a leading //, matches if any reading of it does. A router that also routes /LOGIN or /login/ to /login offers a way around it: wrap its routes individually
	// instead.
	Match string
	// Matches are further patterns: the policy applies to requests that match Match or any of them.
	Matches []string
	// Skip exempts a request; nil exempts none.
	Skip func(*http.Request) bool
	// Key identifies the client that a request belongs to; the zero Key means ByAddress(Options.Client). A request with an empty key,
	// such as one without the header of ByHeader, is counted by the client's address, as "address:203.0.113.7".
	Key Key
	// ShareEmptyKey makes all requests with an empty Key share it, instead of counting them by address, and accepts keys that
	// begin with "address:" unchanged. Global does not need it.
	ShareEmptyKey bool
	// Limits apply to every key, all of them together; if empty, the limiter's own. A request holds a slot of an in-flight
	// limit (slidegate.Slots) from its admission until its handler has returned, and until the connection is closed if the
	// handler took it over; the middleware renews the slot for that long. Likewise, a request holds the units of a limit with
	// Hold, for at most an hour, and they are charged when it ends, at its cost or what CostAfter returns.
	Limits []slidegate.Limit
	// Plan returns the limits of one request, for clients with different plans: policy.Limits, policy.Named, policy.Unlimited or
	// policy.Refused. The zero Plan and a nil func mean Limits. If it returns an error, the request is refused with 503,
	// whatever Failure is: the limits of another plan would be wrong. The event has the error.
	Plan func(*http.Request) (policy.Plan, error)
	// Plans are limits that Plan may return by policy.Named, and need a Plan. See policy.Plan.
	Plans []policy.Plan
	// Cost is how many units a request takes; nil means 1. A cost of 0 charges nothing and only checks: the request is refused,
	// with a Retry-After, as one that costs a unit would be. To exempt requests, use Skip. A cost below 0, such as the
	// ContentLength of a body of unknown length, counts as 1. A request always takes one slot of an in-flight limit, even if it
	// costs nothing otherwise.
	Cost func(*http.Request) int64
	// CostAfter returns the actual cost of a request, known once its response is written; nil leaves it at Cost. The difference
	// is refunded or charged, beyond the quota if necessary, also under Shadow. CostOfBytes, CostIfStatus
	// and CostFromHandler are the usual ones. With a CostAfter, a Cost of 0 means that everything is charged afterwards: the
	// request is refused while no unit is left, and takes one until the cost is known.
	CostAfter CostAfter
	// Overrides are other limits for some keys; Allow and Block are lists of clients by key and by address. A client on the block
	// list is refused with 403, also if it is on both. policy.Override describes how a key is written; what can match no
	// request is an error of New.
	Overrides    []policy.Override
	Allow, Block policy.List
	// Shadow decides and reports, and never refuses, to try a policy on real traffic.
	Shadow bool
	// Penalty refuses a key for this long after a refusal by the limits; 0 means until they admit it again. It begins with the
	// first refusal, is not extended by later ones, and holds in all processes that share the store. A request that is larger than
	// the quota, costs nothing or could not be decided does not begin one. Leased limits cannot have one.
	Penalty time.Duration
	// Wait is how long a request waits in line until the limits admit it, instead of being refused at once; 0 means not at all. It is
	// refused at once if its turn would come too late, with a Retry-After that counts who is before it. In one process, requests with the
	// same key are served in the order in which they came. A client that leaves gives up its place. It cannot be
	// combined with Penalty, or limits that count refusals.
	Wait time.Duration
	// Failure decides when the store does not answer; the zero value means Options.Failure. Use store.FailClosed for logins.
	Failure store.Mode
	// Refusal replaces the default texts of refusals by the limits. The zero value means the default texts.
	Refusal Refusal
}

// compiled is a Policy prepared for requests.
type compiled struct {
	Policy
	index        int // index among the policies
	matcher      *match.Matcher
	needsAddress bool // the client's address is needed for a list
	selfNamed    bool // clients name themselves, and may omit the name
	form         keyform.Form
	slots        bool // its requests hold slots, or units of a limit with Hold
	texts        *reply.Texts
}

// newPolicy compiles a policy. The rest of a policy with an error can still be checked.
func newPolicy(given Policy, index int, opts *Options) (*compiled, error) {
	p := &compiled{Policy: given, index: index, needsAddress: len(given.Allow.Addresses)+len(given.Block.Addresses) > 0}
	p.selfNamed = !p.Key.IsZero() && !p.ShareEmptyKey && !p.Key.Shared && !p.Key.Always
	if p.Key.IsZero() {
		p.Key = ByAddress(opts.Client)
	}
	if p.form = p.Key.Form; p.selfNamed {
		p.form = p.Key.FormOr(keyform.Address(opts.Client.Grouping()))
	}
	var err, badRefusal error
	if p.matcher, err = match.New(p.patterns()...); err != nil {
		err = fmt.Errorf("httplimit: policy %q: match: %w", given.Name, err)
	}
	if p.texts, badRefusal = reply.Refusal(given.Refusal).Prepare(given.Name); badRefusal != nil {
		err = errors.Join(err, fmt.Errorf("httplimit: policy %q: refusal: %w", given.Name, badRefusal))
	}
	if len(given.Plans) > 0 && given.Plan == nil {
		err = errors.Join(err, fmt.Errorf("httplimit: policy %q: plans: need a Plan, which selects one of them by policy.Named", given.Name))
	}
	return p, err
}

// Rules returns the policy as the policy engine needs it: everything that is not about HTTP.
func (p *Policy) Rules() engine.Spec {
	return engine.Spec{
		Name: p.Name, Form: p.Key.Form, Limits: p.Limits, Overrides: p.Overrides, Plans: p.Plans, Allow: p.Allow, Block: p.Block,
		Shadow: p.Shadow, Penalty: p.Penalty, Wait: p.Wait, Failure: p.Failure,
	}
}

// patterns returns Match and Matches; nothing if the policy applies to every request.
func (p *Policy) patterns() []string {
	if p.Match == "" {
		return p.Matches
	}
	return append([]string{p.Match}, p.Matches...)
}

// matches reports whether Wrap applies the policy to this request.
func (p *compiled) matches(r *http.Request) bool {
	return !p.Key.Given && p.matcher.Match(r) && (p.Skip == nil || !p.Skip(r))
}

// decidesAlone reports whether a policy can be decided without a transaction of several parts.
func (p *compiled) decidesAlone(opts *Options) bool {
	return !p.Shadow && !p.slots && p.CostAfter == nil && opts.Group == nil
}

// part fills in the policy's part in a request, with the given key or, if that is empty, the policy's own. This is the only place where the
// application's functions are called.
func (p *compiled) part(r *http.Request, given string, opts *Options, part *engine.Part) {
	part.Policy, part.Cost, part.Key = p.index, 1, given
	if given == "" {
		if part.Key, part.Err = p.Key.Of(r); part.Err != nil {
			part.Err = fmt.Errorf("httplimit: policy %q: key: %w", p.Name, part.Err)
			return
		}
	}
	if p.selfNamed {
		part.Key = nameOrAddress(part.Key, r, opts.Client)
	}
	if p.Cost != nil {
		part.Cost = p.Cost(r)
	}
	if p.Plan != nil {
		if part.Plan, part.Err = p.Plan(r); part.Err != nil {
			part.Err = fmt.Errorf("httplimit: policy %q: plan: %w", p.Name, part.Err)
		}
	}
	if p.needsAddress {
		part.Address, _ = opts.Client.Addr(r)
	}
}

// prepare prepares limits for header fields.
func prepare(limits []slidegate.Limit) (any, error) {
	items := make([]*reply.Item, 0, len(limits))
	for _, limit := range limits {
		item, err := reply.NewItem(limit)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}
