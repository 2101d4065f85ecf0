package gate

import (
	"net/netip"

	"github.com/slidegate/slidegate"
)

// Ask is a question to a Gate: may this key take this many units under this policy?
type Ask struct {
	Policy  string     // "" means the default one
	Key     string     // who is limited
	Address netip.Addr // the client's, if known, for allow and deny lists
	Cost    int64      // units; 0 is a peek
}

// By is what decided.
type By uint8

// What decides: the limits, one of the lists, or an override that says that there is no limit.
const (
	ByLimits By = iota
	ByAllowList
	ByDenyList
	ByUnlimited
)

var byNames = [...]string{"limits", "allow_list", "deny_list", "unlimited"}

// String returns the word for b that metrics and JSON use.
func (b By) String() string {
	if int(b) < len(byNames) {
		return byNames[b]
	}
	return "unknown"
}

// MarshalText returns String.
func (b By) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// Verdict is what a Gate answers. The zero value is a refusal.
type Verdict struct {
	// Decision is what the client gets told: with a policy that only watches, Allowed is true and RetryAfter 0 although
	// the limits refused. Where the limits were not asked (see By), only Allowed, Granted and RetryAfter mean anything.
	Decision slidegate.Decision
	// Policy is the name of the policy that decided. With CheckRequest there may be several; it is then the one whose
	// limit decided.
	Policy string
	By     By
	// Shadow tells that the policy only watches; Refused what it would have done.
	Shadow bool
	// Refused tells that the limits, or the deny list, refused, also where Shadow made an admission of it.
	Refused bool
	// Limits are those that were asked, in the order of Decision.Answers. They are shared and must not be changed.
	Limits []slidegate.Limit
}
