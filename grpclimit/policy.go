package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// Policy is a named set of limits with a rule that makes the key, and which calls it is for. The zero value limits every
// call by its address to the limiter's own limits.
type Policy struct {
	// Name tells policies apart, in state, refusals and events. It is required where there are several.
	Name string
	// Match is the full name of a method, "/package.Service/Method", or of all methods of a service, "/package.Service/*";
	// empty means every call.
	Match string
	// Skip lets a call off; nil lets none off.
	Skip func(ctx context.Context, method string) bool
	// Key says who a call is of; nil means Address(nil) on a server, and on a client what ClientOptions.Key says.
	Key Key
	// Limits are what every key faces, all at once; if empty, the limiter's own.
	Limits []slidegate.Limit
	// Plan returns the limits of one call, for users with different plans; nil, or nothing returned, means Limits, which
	// are required for that. A limit of the same name and shape keeps what was used when the plan changes.
	Plan func(ctx context.Context, method string) []slidegate.Limit
	// Cost is how many units a call takes; nil means 1. The message is the request of a call that has just one, or the
	// message of a stream that PerMessage or PerReply charge; it is nil where a stream opens, and must not be kept or
	// changed. What costs 0 is let through without a decision, and a cost below 0 is 1.
	Cost func(ctx context.Context, method string, message any) int64
	// PerMessage charges each message that the client sends in a stream, besides the stream itself. A server's handler gets
	// a refusal as the error of RecvMsg, and all that it can do with the stream then is return it; a client's SendMsg waits
	// or refuses like a call. Where the client sends just one message, that is the call, and is not charged again.
	PerMessage bool
	// PerReply charges each message that the server sends in a stream, in the same way.
	PerReply bool
	// Shadow decides and reports, and never refuses: to try a policy on real traffic.
	Shadow bool
}

// policy is a Policy made ready.
type policy struct {
	Policy
	limiter *slidegate.Limiter
	limits  []slidegate.Limit // those of limiter, with the names that state belongs to
	service string            // "/package.Service/" if Match means all of its methods
}

// newPolicies makes policies ready, or says what is wrong with one. Policies without a key get the one given.
func newPolicies(limiter *slidegate.Limiter, given []Policy, key Key) ([]*policy, error) {
	if len(given) == 0 {
		given = []Policy{{}}
	}
	var made []*policy
	names := map[string]bool{}
	for _, one := range given {
		if one.Name == "" && len(given) > 1 {
			return nil, errors.New("grpclimit: policy name: is missing, and there are several policies: give each its own")
		}
		if names[one.Name] {
			return nil, fmt.Errorf("grpclimit: policy name: %q is there twice: give each its own", one.Name)
		}
		for other := range names {
			if strings.HasPrefix(one.Name, other+"/") || strings.HasPrefix(other, one.Name+"/") {
				return nil, fmt.Errorf("grpclimit: policy name: %q and %q: one must not be the other's and a slash", other, one.Name)
			}
		}
		names[one.Name] = true
		if one.Key == nil {
			one.Key = key
		}
		p, err := newPolicy(limiter, one)
		if err != nil {
			return nil, fmt.Errorf("grpclimit: policy %q: %w", one.Name, err)
		}
		made = append(made, p)
	}
	return made, checkTogether(limiter, made)
}

func newPolicy(limiter *slidegate.Limiter, given Policy) (*policy, error) {
	p := &policy{Policy: given}
	if err := checkMatch(p.Match); err != nil {
		return nil, err
	}
	if service, all := strings.CutSuffix(p.Match, "*"); all {
		p.service = service
	}
	limits := given.Limits
	if len(limits) == 0 {
		limits = limiter.Limits()
	}
	if len(limits) == 0 {
		return nil, errors.New("there is no limit: give it Limits, or give the limiter some")
	}
	p.limits = p.named(limits)
	var err error
	p.limiter, err = limiter.With(p.limits...)
	return p, err
}

// named returns limits with the policy's name before their own, so that policies do not share counts by accident.
func (p *policy) named(limits []slidegate.Limit) []slidegate.Limit {
	named := make([]slidegate.Limit, 0, len(limits))
	for _, limit := range limits {
		if p.Name != "" {
			limit.Name = joined(p.Name, limit.Name)
		}
		named = append(named, limit)
	}
	return named
}

// joined puts the name of a policy before that of a limit, if that has one.
func joined(policy, limit string) string {
	if limit == "" {
		return policy
	}
	return policy + "/" + limit
}

// inRange makes a cost of what is none: as an error, it would let pass what is to be refused.
func inRange(cost int64) int64 {
	if cost < 0 {
		return 1
	}
	return min(cost, rule.MaxQuota)
}

// checkMatch returns an error if a Match can match nothing.
func checkMatch(match string) error {
	if match == "" {
		return nil
	}
	service, method, _ := strings.Cut(strings.TrimPrefix(match, "/"), "/")
	wrong := match[0] != '/' || service == "" || method == "" || strings.Contains(method, "/") ||
		strings.Contains(service, "*") || (strings.Contains(method, "*") && method != "*")
	if wrong {
		return fmt.Errorf("match: %q: must be /package.Service/Method or /package.Service/*, or empty for every call", match)
	}
	return nil
}

// checkTogether returns an error if a call can match policies that the limiter cannot decide together. To look at one
// call for each Match is enough, for no other call matches more.
func checkTogether(limiter *slidegate.Limiter, policies []*policy) error {
	for _, p := range policies {
		var limits []slidegate.Limit
		for _, other := range policies {
			if !other.Shadow && other.matches(p.Match) {
				limits = append(limits, other.limits...)
			}
		}
		if _, err := limiter.With(limits...); err != nil {
			return fmt.Errorf("grpclimit: policies that match %q: %w", p.Match, err)
		}
	}
	return nil
}

// matches tells whether the policy is for calls of this method.
func (p *policy) matches(method string) bool {
	if p.service != "" {
		return strings.HasPrefix(method, p.service)
	}
	return p.Match == "" || p.Match == method
}

// stage is what part of a call is being decided.
type stage uint8

const (
	stageCall    stage = iota // the whole of it, or the opening of a stream
	stageMessage              // a message that the client sends
	stageReply                // a message that the server sends
)

// at tells whether the policy charges at this stage.
func (p *policy) at(s stage) bool {
	switch s {
	case stageMessage:
		return p.PerMessage
	case stageReply:
		return p.PerReply
	}
	return true
}

// question is what is to be decided: a call, or a message of one.
type question struct {
	method  string
	key     string // a client's, for policies without a key of their own
	stage   stage
	message any
}

// part is one policy's part in a question.
type part struct {
	policy  *policy
	key     string
	cost    int64
	limits  []slidegate.Limit
	planned bool // limits are of a plan, not of the policy
}

// ask returns the policy's part in a question, if it has one.
func (p *policy) ask(ctx context.Context, q *question) (one part, ok bool) {
	if !p.at(q.stage) || !p.matches(q.method) || (p.Skip != nil && p.Skip(ctx, q.method)) {
		return part{}, false
	}
	one = part{policy: p, key: q.key, cost: 1, limits: p.limits}
	if p.Cost != nil {
		if one.cost = inRange(p.Cost(ctx, q.method, q.message)); one.cost == 0 {
			return part{}, false
		}
	}
	if p.Key != nil {
		one.key = p.Key(ctx, q.method)
	}
	if p.Plan != nil {
		if plan := p.Plan(ctx, q.method); len(plan) > 0 {
			one.limits, one.planned = p.named(plan), true
		}
	}
	return one, len(one.limits) > 0
}
