package grpclimit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// Policy is a named set of limits with a function that returns the key, and a pattern for the calls that it applies to.
// The zero value limits every call by its address to the limiter's own limits.
type Policy struct {
	// Name distinguishes policies, in state, refusals and events. It is required where there are several.
	Name string
	// Match is the full name of a method, "/package.Service/Method", or of all methods of a service,
	// "/package.Service/*"; empty means every call.
	Match string
	// Skip exempts a call; nil exempts none.
	Skip func(ctx context.Context, method string) bool
	// Key identifies the client that a call belongs to; the zero Key means ByAddress(nil) on a server, and on a client
	// ClientOptions.Key. Where it returns "", as ByMetadata does if the field is missing, a server counts the client's
	// address instead, as "address:203.0.113.7".
	Key Key
	// ShareEmptyKey makes all calls with an empty Key share it, instead of counting them by address, and leaves keys
	// that begin with "address:" unchanged. Global does not need it, and clients share the empty key in any case.
	ShareEmptyKey bool
	// Limits apply to every key, all of them together; if empty, the limiter's own apply. A call holds a slot of an
	// in-flight limit from its admission until its handler has returned, and on a client until it has ended. Likewise, it
	// holds the units of a limit with Hold, for at most an hour, and they are charged when it ends.
	Limits []slidegate.Limit
	// Plan returns the limits of one call, for clients with different plans: policy.Limits, policy.Unlimited or
	// policy.Refused. The zero Plan, and a nil func, mean Limits. If it returns an error, the call is refused with
	// UNAVAILABLE, whatever Failure is: the limits of another plan would be wrong. The event has the error.
	Plan func(ctx context.Context, method string) (policy.Plan, error)
	// Cost is how many units a call takes; nil means 1. The message is the request of a call that has just one, or the
	// message of a stream that PerMessage or PerReply charge; it is nil where a stream opens, and must not be kept or
	// changed. A cost of 0 charges nothing and only checks: the call is refused as one that costs a unit would be. To
	// exempt calls, use Skip. A negative cost counts as 1.
	Cost func(ctx context.Context, method string, message any) int64
	// CostAfter returns the actual cost of a call, known once it has ended; nil leaves it at Cost. The difference is
	// returned or charged, beyond the quota if necessary: also under Shadow. It must not be
	// negative. With a CostAfter, a Cost of 0 means that everything is charged afterwards: the call is refused while no
	// unit is left, and takes one until it has ended. Messages of a stream are
	// not settled, nor is a stream that a client leaves before its end.
	CostAfter func(ctx context.Context, method string, result Result) int64
	// Overrides are other limits for some keys, Allow and Block are lists of clients by key and by address; a client
	// on both is refused. A client on the block list is refused with PERMISSION_DENIED. policy.Override describes
	// how a key is written; what can match no call is an error.
	Overrides    []policy.Override
	Allow, Block policy.List
	// PerMessage charges each message that the client sends in a stream, in addition to the stream itself. A server's
	// handler gets a refusal as the error of RecvMsg, and can then only return it; a client's SendMsg waits or refuses
	// like a call. Where the client sends just one message, that is the call, and is not charged again.
	PerMessage bool
	// PerReply charges each message that the server sends in a stream, in the same way.
	PerReply bool
	// Shadow decides and reports, and never refuses: to try a policy on real traffic.
	Shadow bool
	// Penalty keeps a key out for this long after a refusal by the limits; see httplimit.Policy.
	Penalty time.Duration
	// Failure is the failure mode; the zero value means the mode of the options.
	Failure store.Mode
}

// Result is the result of a call.
type Result struct {
	Reply any   // of a call that has just one; nil if it failed, and with streams on a server
	Err   error // the error of the call; nil if it succeeded
	Cost  int64 // the cost that the call was admitted for
}

// compiled is a compiled Policy.
type compiled struct {
	Policy
	index        int    // its index in the policies
	service      string // "/package.Service/" if Match means all of its methods
	needsAddress bool   // a list needs the client's address
	address      Key    // used where the key is empty; the zero Key if it is not needed
	form         keyform.Form
	slots        bool // its calls hold slots, or units of a limit with Hold
}

// newPolicy compiles a policy, or returns what is wrong with it. The key is a server's default; on a
// client, it has only the form of ClientOptions.Key.
func newPolicy(given Policy, index int, key Key) (*compiled, error) {
	p := &compiled{Policy: given, index: index, needsAddress: len(given.Allow.Addresses)+len(given.Block.Addresses) > 0}
	switch {
	case p.Key.IsZero():
		p.Key = key
	case !p.ShareEmptyKey && !p.Key.Shared && !p.Key.Always:
		p.address = key
	}
	if p.form = p.Key.Form; !p.address.IsZero() {
		p.form = p.Key.FormOr(p.address.Form)
	}
	if service, all := strings.CutSuffix(p.Match, "*"); all {
		p.service = service
	}
	err := checkMatch(p.Match)
	return p, err
}

// rules returns the part of the policy that the engine needs.
func (p *compiled) rules() engine.Spec {
	return engine.Spec{
		Name: p.Name, Form: p.form, Limits: p.Limits, Overrides: p.Overrides, Allow: p.Allow, Block: p.Block,
		Shadow: p.Shadow, Penalty: p.Penalty, Failure: p.Failure,
	}
}

// checkMatch returns an error if a Match can match nothing.
func checkMatch(match string) error {
	if match == "" {
		return nil
	}
	service, method, _ := strings.Cut(strings.TrimPrefix(match, "/"), "/")
	invalid := match[0] != '/' || service == "" || method == "" || strings.Contains(method, "/") ||
		strings.Contains(service, "*") || (strings.Contains(method, "*") && method != "*")
	if invalid {
		return fmt.Errorf("match: %q: must be /package.Service/Method or /package.Service/*, or empty for every call", match)
	}
	return nil
}

// matches reports whether the policy applies to calls of this method.
func (p *compiled) matches(method string) bool {
	if p.service != "" {
		return strings.HasPrefix(method, p.service)
	}
	return p.Match == "" || p.Match == method
}

// stage is the part of a call that is being decided.
type stage uint8

const (
	stageCall    stage = iota // the whole call, or the opening of a stream
	stageMessage              // a message that the client sends
	stageReply                // a message that the server sends
)

// chargesAt reports whether the policy charges at this stage.
func (p *compiled) chargesAt(s stage) bool {
	switch s {
	case stageMessage:
		return p.PerMessage
	case stageReply:
		return p.PerReply
	}
	return true
}

// call is a call to decide, or a message of one.
type call struct {
	method  string
	key     string // a client's, for policies without their own key
	stage   stage
	message any
	policy  string // the policy that decided
}

// part fills in the policy's part of a call. The application's functions are called here, once, however long the call
// waits.
func (p *compiled) part(ctx context.Context, c *call, d *decider, part *engine.Part) {
	part.Policy, part.Key, part.Cost = p.index, c.key, 1
	if p.Cost != nil {
		part.Cost = p.Cost(ctx, c.method, c.message)
	}
	if !p.Key.IsZero() {
		if part.Key, part.Err = p.Key.Of(keyCall{ctx, c.method}); part.Err != nil {
			part.Err = fmt.Errorf("grpclimit: policy %q: key: %w", p.Name, part.Err)
			return
		}
	}
	if !p.address.IsZero() {
		part.Key = nameOrAddress(keyCall{ctx, c.method}, part.Key, p.address)
	}
	if p.Plan != nil {
		if part.Plan, part.Err = p.Plan(ctx, c.method); part.Err != nil {
			part.Err = fmt.Errorf("grpclimit: policy %q: plan: %w", p.Name, part.Err)
		}
	}
	if p.needsAddress {
		part.Address = d.address(ctx)
	}
}

// decidesAlone reports whether a policy can be decided without a transaction.
func (p *compiled) decidesAlone(d *decider) bool {
	return !p.Shadow && !p.slots && p.CostAfter == nil && d.group == nil
}
