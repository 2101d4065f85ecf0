package policy

import (
	"errors"
	"time"

	"github.com/slidegate/slidegate"
)

// By is what decided a request.
type By uint8

// Values of By: the limits, also those of a ruling; one of the lists; an override, plan or ruling without limits; or a
// ruling that refuses everything. A plan that admits nothing counts as a block list.
const (
	ByLimits By = iota
	ByAllowList
	ByBlockList
	ByUnlimited
	ByRuling
)

var byNames = [...]string{"limits", "allow_list", "block_list", "unlimited", "ruling"}

// String returns the name of b in metrics and JSON.
func (b By) String() string {
	if int(b) < len(byNames) {
		return byNames[b]
	}
	return "unknown"
}

// MarshalText returns String.
func (b By) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// Decision is what a request gets, or one policy's part of it. No field contains a key.
type Decision struct {
	// The decision of the limits, even if Shadow turns a refusal into an admission. Its flags report whether the store
	// decided or, because it could not, the failure mode. Where the limits did not decide (see By), only Allowed, Granted
	// and RetryAfter are meaningful.
	slidegate.Decision
	// Policy is the name of the policy that decided, or of the first if the store could not decide.
	Policy string
	// Plan is the name of the plan by which the request was decided; empty if the policy does not list it.
	Plan string
	By   By
	// Shadow reports whether the policy is in shadow mode: whatever it decided, it refused nothing.
	Shadow bool
	// Penalty is how long the key is kept out because it exceeded the limits, now or before. The
	// answers of the policy's limits are then refusals for at least as long. It is 0 if the key is not kept out.
	Penalty time.Duration
	// Waited is how long the request was in line until it was decided; 0 if it did not stand in line.
	Waited time.Duration
	// Refused reports whether the request is refused.
	Refused bool
	// Limits are the limits of Answers, in the same order. They are shared and must not be changed.
	Limits []slidegate.Limit
	// Err is why the store could not decide, or could not settle afterwards. The flags report which failure
	// mode decided, if one did: with rule.FallbackLocal limits decided in this process, and otherwise no limit did, unless the store refused
	// the request before the outage. FallbackLocal also occurs in the mode open: for a request that the store was only late to answer.
	Err error
	// Ended reports whether the request was refused because the caller's own context had ended.
	Ended bool
	// Mistake reports whether the request was refused because it cannot be decided at all, whatever the failure mode: a plan
	// with an invalid limit, for example, or more limits than the store decides together. It is a server error.
	Mistake bool
	// Note is what the middleware has prepared for Limits. It is of no use to others.
	Note any
}

// Forbidden reports whether the client is refused whatever it does: by a block list, or by a ruling that does not end. A
// ruling that ends has a RetryAfter, to its end; limits are checked only then, and may refuse for longer.
func (d *Decision) Forbidden() bool {
	return !d.Allowed && (d.By == ByBlockList || d.By == ByRuling) && d.RetryAfter == slidegate.Never
}

var (
	// ErrSlots is wrapped by errors about an in-flight limit where nothing would release the slot. They also wrap
	// slidegate.ErrUnsupported.
	ErrSlots error = slotsError{}
	// ErrSlotLost is wrapped by the Err of a Decision about a slot that was not renewed within its time to live, so that
	// another request may have taken it. The other fields report whether another one could be taken.
	ErrSlotLost = errors.New("the slot of an in-flight limit was lost")
	// ErrHoldLost is wrapped by the Err of a Decision about units of a limit with Hold that were not renewed in time, so that other
	// requests may use them. What the request uses is charged nevertheless when it ends.
	ErrHoldLost = errors.New("held units were lost")
)

// slotsError is the type of ErrSlots. It is an ErrUnsupported without its text, which would blame the store.
type slotsError struct{}

func (slotsError) Error() string { return "nothing here releases the slot of an in-flight limit" }

func (slotsError) Unwrap() error { return slidegate.ErrUnsupported }
