package gate

import (
	"errors"
	"net/netip"

	"github.com/slidegate/slidegate/policy"
)

// Request is a request to a Gate: may this key take this many units under this policy?
type Request struct {
	Policy   string     // "" means the default policy
	Key      string     // the client that is limited
	Address  netip.Addr // the client's address, if known, for allow and deny lists
	Cost     int64      // units; 0 is a peek
	Listener Listener   // the listener that received it
	// Plan is the value that selects the plan, for policies with plans that are selected by a field of the request;
	// empty means none.
	Plan string
}

// Listener identifies a listener in metrics.
type Listener uint8

// The listeners.
const (
	HTTP Listener = iota
	RESP
	Proxy // requests run in it
	listeners
)

var listenerNames = [listeners]string{"http", "resp", "proxy"}

// By is what decided a request.
type By = policy.By

// What can decide: the limits, one of the lists, an override or ruling that lifts the limits, or a ruling that blocks
// the key.
const (
	ByLimits    = policy.ByLimits
	ByAllowList = policy.ByAllowList
	ByDenyList  = policy.ByDenyList
	ByUnlimited = policy.ByUnlimited
	ByRuling    = policy.ByRuling
)

// Verdict is the result of a Gate. It differs from the engine's verdict in two ways. Decision is what the client gets:
// under a policy in shadow mode, Allowed is true and RetryAfter 0 even if the limits denied. Refused reports whether
// the limits or the deny list denied, in shadow mode too.
type Verdict = policy.Verdict

// forClient converts a verdict of the engine to the verdict for the client. Granted is the amount that the client gets if
// the policy is in shadow mode. The error is the reason why nothing could be decided; the listener chooses the response.
func forClient(v *Verdict, granted int64) error {
	if v.Err != nil {
		err := v.Err
		*v = Verdict{Policy: v.Policy}
		if errors.Is(err, ErrSlots) {
			err = explainUnheld(err)
		}
		return err
	}
	if v.Refused = !v.Decision.Allowed; v.Refused && v.Shadow {
		v.Decision.Allowed, v.Decision.RetryAfter, v.Decision.Granted = true, 0, granted
	}
	return nil
}
