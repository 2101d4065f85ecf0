package policy

import (
	"net/netip"
	"time"

	"github.com/slidegate/slidegate"
)

// Policy is a named set of limits that all apply to a key. The zero value has the limiter's own limits for every key.
type Policy struct {
	// Name distinguishes policies, in state, answers and events. It is required where there are several.
	Name string
	// Form describes the keys, so that Overrides, lists and rulings can be written with what a person knows of a client.
	// The middlewares and package config set it; nil means that keys are written as requests have them.
	Form Form
	// Limits apply to every key, all of them together; if empty, the limiter's own apply.
	Limits []slidegate.Limit
	// Overrides are other limits for some keys. The first one that fits a key applies, and takes precedence over a
	// plan.
	Overrides []Override
	// Plans are other limits for requests whose Part selects one of them by Named.
	Plans []NamedPlan
	// Allow lists clients that are admitted and charged nothing, Deny those that are denied without a call to the
	// store. A client on both lists is denied, and so is one on Allow whose plan is Refused.
	Allow, Deny List
	// Shadow policies decide and report, and never deny.
	Shadow bool
	// Candidate limits are counted separately from the policy's own, and only reported. Request.Settle settles them
	// too.
	Candidate []slidegate.Limit
	// Penalty keeps a key out for this long after a denial by the policy's limits; 0 means until they admit it again. It
	// begins with the first denial and is not extended by later ones, holds in all processes that share the store, and is
	// reflected in RetryAfter. A request that is larger than the quota does not begin one, nor does one that costs
	// nothing, or that could not be decided; candidates ignore it. It takes one more limit of the store, so leased limits
	// cannot have one.
	Penalty time.Duration
	// Failure is the failure mode; the zero value means the mode of Options.
	Failure Mode
	// Count is called for every request, and every candidate, that was decided; nil disables it. It must be quick and
	// safe for concurrent use, and must not keep the key without copying it.
	Count func(key string, outcome Outcome)
}

// Override gives some keys of a policy other limits, or none.
type Override struct {
	// Key is what a person knows of the client: for a key by address the address in any notation, or a prefix such as
	// 203.0.113.0/24; for a hashed key the secret, or its hash; for the first of several keys the value of any of them, or
	// of the one that is named, as in header:X-User=ann; and all parts of a key that consists of several. For a key made by a
	// function of the application, it is what the function returns. After a = it is the key as requests have it. If no
	// request can have the key, New returns an error that says what to write.
	Key       string
	Pattern   bool              // each * in Key stands for any sequence of bytes; otherwise a * is an error
	Limits    []slidegate.Limit // empty if Unlimited
	Unlimited bool
}

// Matches reports whether the override is for this key, if it is written as requests have it.
func (o Override) Matches(key string) bool {
	if o.Pattern {
		return matchKey(o.Key, key)
	}
	return o.Key == key
}

// List is a list of clients, by their address or by their key. The zero value is empty.
type List struct {
	Addresses []netip.Prefix // must be valid; a 4-in-6 prefix means the IPv4 prefix
	Keys      []string       // keys as in Override.Key; in those that do not begin with =, each * stands for any sequence of bytes
}

// IsZero reports whether the list is empty.
func (l List) IsZero() bool { return len(l.Addresses) == 0 && len(l.Keys) == 0 }

// Mode is a failure mode: what happens to requests that the store cannot decide. The zero value means the mode of
// Options in a Policy, and Open in Options.
type Mode uint8

// The modes, in increasing strictness. Where policies with different modes decide together, the strictest applies.
const (
	Open       Mode = iota + 1 // requests are admitted: an outage of the limiter is not an outage of the service
	Local                      // this process counts on its own
	Optimistic                 // this process admits a few units of each key, and charges them when the store is back
	Closed                     // requests are denied
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

// Plan selects the limits of one request, for clients with different plans. The zero value means the policy's own
// limits.
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

// Limits returns a plan of these limits. A limit of the same name and shape keeps its usage when a client changes
// plans. An empty list is a mistake: the request is then denied; for a client without limits, use Unlimited.
//
// A limit without an algorithm counts as the policy's limit of the same name and window does. If it cannot, because
// that limit is a sliding log and the quota is above rule.MaxLogQuota, it uses its own default algorithm and has its
// own counts.
func Limits(limits ...slidegate.Limit) Plan { return Plan{kind: planLimits, limits: limits} }

// Unlimited returns a plan without limits: the request is admitted and charged nothing.
func Unlimited() Plan { return Plan{kind: planUnlimited} }

// Refused returns a plan that admits nothing, as a deny list does: not even a client on the allow list.
func Refused() Plan { return Plan{kind: planRefused} }
