package policy

import (
	"context"
	"errors"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// By is what decided a request.
type By uint8

// Values of By: the limits, also those of a ruling; one of the lists; an override, plan or ruling without limits; or a
// ruling that denies everything. A plan that admits nothing counts as a deny list.
const (
	ByLimits By = iota
	ByAllowList
	ByDenyList
	ByUnlimited
	ByRuling
)

var byNames = [...]string{"limits", "allow_list", "deny_list", "unlimited", "ruling"}

// refuses reports whether b denies everything, without limits.
func (b By) refuses() bool { return b == ByDenyList || b == ByRuling }

// String returns the name of b in metrics and JSON.
func (b By) String() string {
	if int(b) < len(byNames) {
		return byNames[b]
	}
	return "unknown"
}

// MarshalText returns String.
func (b By) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// Verdict is the outcome of a request, or of one policy's part of it. No field contains a key.
type Verdict struct {
	// Decision is the decision of the limits, even if Shadow turns a denial into an admission. Its flags report whether
	// the store decided or, because it could not, the failure mode. Where the limits did not decide (see By), only
	// Allowed, Granted and RetryAfter are meaningful.
	Decision slidegate.Decision
	// Policy is the name of the policy that decided, or of the first if the store could not decide.
	Policy string
	// Plan is the name of the plan by which the request was decided; empty if the policy does not list it.
	Plan string
	By   By
	// Shadow reports whether the policy is in shadow mode: whatever it decided, it denied nothing.
	Shadow bool
	// Candidate reports whether this is the verdict of a policy's candidate limits, which deny nothing either.
	Candidate bool
	// ChargedTwice reports whether a middleware around this one has already charged the request to one of the same limits, in
	// the same store and for the same key. The client then gets half of its quota. Name the limits or the policies
	// differently, or remove one of the two middlewares.
	ChargedTwice bool
	// Penalty is how long the key is kept out because it exceeded the limits, now or before: see Policy.Penalty. The
	// answers of the policy's limits are then denials for at least as long. It is 0 if the key is not kept out.
	Penalty time.Duration
	// Refused reports whether the request is denied.
	Refused bool
	fault   fault
	// Limits are the limits of Decision.Answers, in the same order. They are shared and must not be changed.
	Limits []slidegate.Limit
	// Err is why the store could not decide, or could not settle afterwards. The flags of Decision report which failure
	// mode decided, if one did: with rule.FallbackLocal and rule.FallbackOptimistic limits decided in this process, and
	// otherwise no limit did.
	Err  error
	note any
}

// fault is the cause of an error.
type fault uint8

const (
	faultNone    fault = iota
	faultStore         // an outage, which the failure mode answers
	faultEnded         // the caller's context ended
	faultMistake       // the request was invalid, and would be at every store
)

// Ended reports whether the request was denied because the caller's own context had ended.
func (v *Verdict) Ended() bool { return v.fault == faultEnded }

// Mistake reports whether the request was denied because it cannot be decided at all, whatever the failure mode: a plan
// with an invalid limit, for example, or more limits than the store decides together. It is a server error.
func (v *Verdict) Mistake() bool { return v.fault == faultMistake }

// Forbidden reports whether the client is denied whatever it does: by a deny list, or by a ruling that does not end. A
// ruling that ends has a RetryAfter, to its end; limits are checked only then, and may deny for longer.
func (v *Verdict) Forbidden() bool {
	return !v.Decision.Allowed && v.By.refuses() && v.Decision.RetryAfter == slidegate.Never
}

// Note returns the result of Options.Prepare for the limits that decided.
func (v *Verdict) Note() any { return v.note }

// fail turns an error into a verdict: the failure mode decides in an outage, everything else is denied.
func (v *Verdict) fail(ctx context.Context, mode Mode, cost int64, err error) {
	v.Err = err
	v.Decision = slidegate.Decision{}
	switch {
	case hasEnded(ctx):
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

// failed reports whether no limit decided: the request could not be decided, or the failure mode admits or denies
// everything. A store in process reports that by an error and a failure layer by its flags.
func (v *Verdict) failed() bool { return v.fault > faultStore || v.Decision.Flags&undecided != 0 }

// refuses reports whether a verdict denies the request.
func (v *Verdict) refuses() bool { return !v.Decision.Allowed && !v.Shadow }

// isMistake reports whether an error is about the request, and not about the store. It has the same list as
// layer/failure.
func isMistake(err error) bool {
	return errors.Is(err, slidegate.ErrLimit) || errors.Is(err, slidegate.ErrCost) ||
		errors.Is(err, slidegate.ErrConflict) || errors.Is(err, slidegate.ErrUnsupported)
}

// hasEnded reports whether the caller's own time has ended. A store may see that by its own clock before the context
// does.
func hasEnded(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= 0
}

// Outcome is what is counted for one policy, or for its candidate.
type Outcome struct {
	By      By
	Shadow  bool
	Refused bool // by the limits or the deny list, also under a shadow policy
	Failed  bool // no limit could decide: Refused is then meaningless. A request whose caller has left is not counted.
	// Candidate reports whether this is about the candidate's limits. Refused is then what these would have done, and
	// LiveRefused what the policy's own limits did.
	Candidate, LiveRefused bool
}
