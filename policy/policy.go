package policy

import (
	"net/netip"

	"github.com/slidegate/slidegate"
)

// Override gives some keys of a policy other limits, or none.
type Override struct {
	// Key is the key as requests have it, which decisions and logs show: an address, or the group in which it is counted; for a hashed
	// key the hash, which HashSecret returns; for the first of several keys the value after its name, as in header:X-User:ann;
	// address:203.0.113.7 for a client without a name. In place of an address it may have a prefix, such as 203.0.113.0/24. If no request
	// can have the key, New returns an error that shows one that requests can have.
	Key       string
	Pattern   bool              // each * in Key stands for any sequence of bytes; otherwise a * is an error
	Limits    []slidegate.Limit // empty if Unlimited
	Unlimited bool
}

// List is a list of clients, by their address or by their key. The zero value is empty.
type List struct {
	Addresses []netip.Prefix // must be valid; a 4-in-6 prefix means the IPv4 prefix
	Keys      []string       // keys as in Override.Key; in those that do not begin with =, each * stands for any sequence of bytes
}

// IsZero reports whether the list is empty.
func (l List) IsZero() bool { return len(l.Addresses) == 0 && len(l.Keys) == 0 }

// Plan selects the limits of one request, for clients with different plans: those of Limits, Unlimited, Refused or Named.
// The zero value means the policy's own limits.
//
// A policy can also list plans, with a Name and either Limits or Unlimited: then New checks their limits, stores reserve
// capacity for them, and a reset of a key resets them too. Requests select them by Named.
type Plan struct {
	Name      string            // as in decisions; with nothing else, it selects the plan of that name that the policy lists
	Limits    []slidegate.Limit // see Limits for how they count
	Unlimited bool
	Refused   bool
}

// IsZero reports whether the plan means the policy's own limits.
func (p *Plan) IsZero() bool {
	return p.Name == "" && p.Limits == nil && !p.Unlimited && !p.Refused
}

// Limits returns a plan of these limits. A limit of the same name and shape keeps its usage when a client changes
// plans. An empty list is a mistake: the request is then refused; for a client without limits, use Unlimited.
func Limits(limits ...slidegate.Limit) Plan {
	if limits == nil {
		limits = []slidegate.Limit{} // nil would mean the policy's own
	}
	return Plan{Limits: limits}
}

// Unlimited returns a plan without limits: the request is admitted and charged nothing.
func Unlimited() Plan { return Plan{Unlimited: true} }

// Refused returns a plan that admits nothing, as a block list does: not even a client on the allow list.
func Refused() Plan { return Plan{Refused: true} }

// Named returns the plan of that name among those that the policy lists. An unknown or empty name is a mistake: the request
// is then refused.
func Named(name string) Plan {
	if name == "" {
		return Limits() // the zero Plan would mean the policy's own limits
	}
	return Plan{Name: name}
}
