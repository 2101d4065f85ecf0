package gate

import (
	"errors"
	"net/netip"

	"github.com/slidegate/slidegate/policy"
)

// Ask is a question to a Gate: may this key take this many units under this policy?
type Ask struct {
	Policy  string     // "" means the default one
	Key     string     // who is limited
	Address netip.Addr // the client's, if known, for allow and deny lists
	Cost    int64      // units; 0 is a peek
	Door    Door       // where it came in
	// Plan is what the field of a request would say that names its plan, for policies with plans; empty means none.
	Plan string
}

// Door is a listener that asks, for metrics.
type Door uint8

// The doors.
const (
	HTTP Door = iota
	RESP
	Proxy // in which requests run
	doors
)

var doorNames = [doors]string{"http", "resp", "proxy"}

// By is what decided.
type By = policy.By

// What decides: the limits, one of the lists, an override or ruling that says that there is no limit, or a ruling that refuses
// everything.
const (
	ByLimits    = policy.ByLimits
	ByAllowList = policy.ByAllowList
	ByDenyList  = policy.ByDenyList
	ByUnlimited = policy.ByUnlimited
	ByRuling    = policy.ByRuling
)

// Verdict is what a Gate answers, in two ways different from what the engine says. Decision is what the client is told: with
// a policy in the shadow, Allowed is true and RetryAfter 0 although the limits refused. Refused tells that the limits, or
// the deny list, refused, also then.
type Verdict = policy.Verdict

// told makes of a verdict of the engine what the client is told. Granted is what a client gets told that the policy only
// watches. The error is why nothing could be decided: what to answer then is up to the listener.
func told(v *Verdict, granted int64) error {
	if v.Err != nil {
		err := v.Err
		*v = Verdict{Policy: v.Policy}
		if errors.Is(err, ErrSlots) {
			err = unheld(err)
		}
		return err
	}
	if v.Refused = !v.Decision.Allowed; v.Refused && v.Shadow {
		v.Decision.Allowed, v.Decision.RetryAfter, v.Decision.Granted = true, 0, granted
	}
	return nil
}
