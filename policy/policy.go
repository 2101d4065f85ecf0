package policy

import (
	"net/netip"
	"time"

	"github.com/slidegate/slidegate"
)

// Policy is a named set of limits that a key faces all at once. The zero value has the limiter's own limits for every key.
type Policy struct {
	// Name distinguishes policies, in state, answers and events. It is required where there are several.
	Name string
	// Limits are what every key faces, all at once; if empty, the limiter's own.
	Limits []slidegate.Limit
	// Overrides are other limits for some keys. The first one that fits a key decides, and goes before a plan.
	Overrides []Override
	// Plans are other limits for requests whose Part has one of them by Named.
	Plans []NamedPlan
	// Allow are clients that are let through and charged nothing, Deny those that are refused without asking the store. A
	// client on both lists is refused, and so is one on Allow whose plan is Refused.
	Allow, Deny List
	// Shadow policies decide and report, and never refuse.
	Shadow bool
	// Candidate are limits that are counted beside the policy's own, apart from them, and only reported. Request.Settle
	// settles them too.
	Candidate []slidegate.Limit
	// Penalty keeps a key out for this long after a refusal by the policy's limits; 0 means until there is room again. It begins
	// with the first refusal and is not prolonged by later ones, holds in all processes that share the store, and RetryAfter says what is left of
	// it. A request that is larger than the quota does not begin one, nor does one that costs nothing, or that could not be decided;
	// candidates do not know it. It takes one more limit of the store, so leased limits cannot have one.
	Penalty time.Duration
	// Failure is what happens when the store cannot decide; the zero value means what Options say.
	Failure Mode
	// Count is called for every request, and every candidate, that was decided; nil counts nothing. It must be quick and safe
	// for concurrent use, and must not keep the key without a copy.
	Count func(key string, outcome Outcome)
}

// Override gives some keys of a policy other limits, or none.
type Override struct {
	Key       string            // the key, or a pattern
	Pattern   bool              // Key is a pattern, in which * stands for any run of bytes
	Limits    []slidegate.Limit // empty if Unlimited
	Unlimited bool
}

// Fits reports whether the override is for this key.
func (o Override) Fits(key string) bool {
	if o.Pattern {
		return matchKey(o.Key, key)
	}
	return o.Key == key
}

// List is a list of clients, by their address or by their key. The zero value is empty.
type List struct {
	Addresses []netip.Prefix // must be valid; a 4-in-6 prefix means the IPv4 one
	Keys      []string       // keys, or patterns if there is a * in them
}

// IsZero reports whether the list is empty.
func (l List) IsZero() bool { return len(l.Addresses) == 0 && len(l.Keys) == 0 }

// Mode is what happens to requests that the store cannot decide. The zero value means what Options say in a Policy, and Open
// in Options.
type Mode uint8

// The modes, in the order of their strictness. Where policies with different modes decide together, the strictest holds.
const (
	Open       Mode = iota + 1 // requests pass: an outage of the limiter is not one of the service
	Local                      // this process counts by itself
	Optimistic                 // this process admits a few units of each key, and charges them when the store is back
	Closed                     // requests are refused
	modes
)

// String returns open, local, optimistic or closed.
func (m Mode) String() string {
	switch m {
	case Open:
		return "open"
	case Local:
		return "local"
	case Optimistic:
		return "optimistic"
	case Closed:
		return "closed"
	}
	return "default"
}

// Plan is the limits of one request, for clients with different plans. The zero value is the policy's own limits.
type Plan struct {
	kind   planKind
	limits []slidegate.Limit
	name   string
}

type planKind uint8

const (
	planOwn planKind = iota
	planLimits
	planUnlimited
	planRefused
	planNamed
)

// Limits is a plan of these limits. A limit of the same name and shape keeps what was used when a client changes plans. It
// is a mistake to give none: the request is then refused; for a client without limits, use Unlimited.
//
// A limit that names no algorithm counts as the policy's limit of the same name and window does. If it cannot, because that is a
// sliding log and the quota is above rule.MaxLogQuota, it has the algorithm that it has by itself, and counts of its own.
func Limits(limits ...slidegate.Limit) Plan { return Plan{kind: planLimits, limits: limits} }

// Unlimited is a plan without limits: the request passes and is charged nothing.
func Unlimited() Plan { return Plan{kind: planUnlimited} }

// Refused is a plan that admits nothing, as a deny list does: not a client on the allow list either.
func Refused() Plan { return Plan{kind: planRefused} }
