package policy

import (
	"context"
	"errors"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// By is what decided.
type By uint8

// What decides: the limits, also those of a ruling; one of the lists; an override, plan or ruling without limits; or a ruling that
// refuses everything. A plan that admits nothing counts as a deny list.
const (
	ByLimits By = iota
	ByAllowList
	ByDenyList
	ByUnlimited
	ByRuling
)

var byNames = [...]string{"limits", "allow_list", "deny_list", "unlimited", "ruling"}

// refuses reports whether b refuses everything, without limits.
func (b By) refuses() bool { return b == ByDenyList || b == ByRuling }

// String returns the word for b that metrics and JSON use.
func (b By) String() string {
	if int(b) < len(byNames) {
		return byNames[b]
	}
	return "unknown"
}

// MarshalText returns String.
func (b By) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// Verdict is what became of a request, or of one policy's part in it. No field holds a key.
type Verdict struct {
	// Decision is what the limits said, also where Shadow makes an admission of a refusal. Its flags report whether the store
	// decided or, because it could not, the failure mode. Where the limits were not asked (see By), only Allowed, Granted
	// and RetryAfter mean anything.
	Decision slidegate.Decision
	// Policy is the name of the policy that decided, or of the first that was asked if none could.
	Policy string
	// Plan is the name of the plan by which the request was decided; empty if it is none of those that the policy lists.
	Plan string
	By   By
	// Shadow reports that the policy is only tried out: whatever it decided, it refused nothing.
	Shadow bool
	// Candidate reports that these are a policy's candidate limits, which refuse nothing either.
	Candidate bool
	// Peek reports that the cost was 0, and is not settled afterwards: nothing was charged, the limits do not refuse it, whatever Decision says, and it does
	// not count as a decision.
	Peek bool
	// Twice reports that a middleware around this one has already charged the request to one of the same limits, in the same
	// store and for the same key: the client gets half of its quota. Name the limits or the policies differently, or remove
	// one of the two middlewares.
	Twice bool
	// Penalty is for how long the key is kept out because it exceeded the limits, now or before: see Policy.Penalty. The answers of
	// the policy's limits are then refusals for at least as long. It is 0 if the key is not kept out.
	Penalty time.Duration
	// Refused reports that the request is refused.
	Refused bool
	fault   fault
	// Limits are those that were asked, in the order of Decision.Answers. They are shared and must not be changed.
	Limits []slidegate.Limit
	// Err is why the store could not decide, or could not settle afterwards. The flags of Decision report which failure mode
	// answered, if one did: rule.FallbackLocal and rule.FallbackOptimistic have decided in this process, and otherwise no limit
	// has.
	Err  error
	note any
}

// fault is whose fault an error is.
type fault uint8

const (
	faultNone    fault = iota
	faultStore         // an outage, which the failure mode answers
	faultEnded         // the caller's context ended
	faultMistake       // the question was wrong, and would be at every store
)

// Ended reports that the request was refused because the caller's own context had ended.
func (v *Verdict) Ended() bool { return v.fault == faultEnded }

// Mistake reports that the request was refused because it cannot be decided at all, whatever the failure mode: a plan with
// an invalid limit, say, or more limits than the store decides at once. It is a server error.
func (v *Verdict) Mistake() bool { return v.fault == faultMistake }

// Forbidden reports that the client is refused whatever it does: by a deny list, or by a ruling that does not end. One that ends is
// like a limit whose Retry-After is long.
func (v *Verdict) Forbidden() bool {
	return !v.Decision.Allowed && v.By.refuses() && v.Decision.RetryAfter == slidegate.Never
}

// Note returns what Options.Prepare made of the limits that were asked.
func (v *Verdict) Note() any { return v.note }

// fail makes a verdict of an error: an outage is answered by the failure mode, everything else is refused.
func (v *Verdict) fail(ctx context.Context, mode Mode, cost int64, err error) {
	v.Err = err
	v.Decision = slidegate.Decision{}
	switch {
	case isOver(ctx):
		v.fault = faultEnded
	case isMistake(err):
		v.fault = faultMistake
	default:
		v.fault = faultStore
		v.Decision.Flags = rule.FallbackClosed
		if mode == Open {
			v.Decision = slidegate.Decision{Allowed: true, Flags: rule.FallbackOpen, Granted: cost}
		}
	}
}

// undecided are the flags of decisions that no limit made.
const undecided = rule.FallbackOpen | rule.FallbackClosed

// failed reports whether no limit decided: the request could not be decided, or the failure mode admits or refuses all. A
// store in process says so by an error and a failure layer by its flags.
func (v *Verdict) failed() bool { return v.fault > faultStore || v.Decision.Flags&undecided != 0 }

// refuses reports whether a verdict refuses the request. What costs nothing passes also where more than the quota was used,
// which happens when a plan got smaller.
func (v *Verdict) refuses() bool {
	free := v.Peek && v.fault <= faultStore && v.Decision.Flags&undecided == 0
	return !v.Decision.Allowed && !v.Shadow && !free
}

// isMistake reports whether an error is about the question, and not about the store. It is the list of layer/failure.
func isMistake(err error) bool {
	return errors.Is(err, slidegate.ErrLimit) || errors.Is(err, slidegate.ErrCost) ||
		errors.Is(err, slidegate.ErrConflict) || errors.Is(err, slidegate.ErrUnsupported)
}

// isOver reports whether the caller's own time has ended. A store may see that on its own clock before the context does.
func isOver(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= 0
}

// Outcome is what is counted for one policy, or for its candidate. Peeks, which charge nothing, are not counted.
type Outcome struct {
	By      By
	Shadow  bool
	Refused bool // by the limits or the deny list, also where the policy is in the shadow
	Failed  bool // no limit could decide: Refused then says nothing. A request whose caller has gone is not counted.
	// Candidate says that this is about the candidate's limits. Refused is then what these would have done, and LiveRefused
	// what the policy's own did.
	Candidate, LiveRefused bool
}
