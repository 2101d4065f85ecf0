package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// Outcome is what is counted for one policy.
type Outcome struct {
	By      policy.By
	Shadow  bool
	Refused bool // by the limits or the block list, also under a shadow policy
	Failed  bool // no limit could decide, and Refused is what the failure mode did. A request whose caller has left is not counted.
	// Fallback reports whether a failure mode decided, by limits in this process or without any, because the store did not answer.
	Fallback bool
	// Penalized and Never report why the limits refused: a penalty that began earlier or now, or a cost above the quota.
	Penalized, Never bool
	// Limit is the limit that refused, or the one of which the largest share is used, and Remaining what is left of it. It is nil if
	// no limit decided. It is shared and must not be changed.
	Limit     *slidegate.Limit
	Remaining int64
	// Plan is the one by which the limits decided, and Method and Path are the Part's.
	Plan, Method, Path string
}

// Spec describes a policy: a named set of limits that all apply to a key. The zero value has the limiter's own limits for every key.
type Spec struct {
	// Name distinguishes policies, in state, answers and events. It is required where there are several.
	Name string
	// Form describes the keys, so that Overrides, lists and rulings are about keys that requests can have. The middlewares
	// and package config set it; nil means any key.
	Form keyform.Form
	// Limits apply to every key, all of them together; if empty, the limiter's own apply.
	Limits []slidegate.Limit
	// Overrides are other limits for some keys. The first one that fits a key applies, and takes precedence over a
	// plan.
	Overrides []policy.Override
	// Plans are other limits for requests whose Part selects one of them by Named.
	Plans []policy.Plan
	// Allow lists clients that are admitted and charged nothing, Block those that are refused without a call to the
	// store. A client on both lists is refused, and so is one on Allow whose plan is Refused.
	Allow, Block policy.List
	// Shadow policies decide and report, and never refuse.
	Shadow bool
	// Penalty keeps a key out for this long after a refusal by the policy's limits; 0 means until they admit it again. It
	// begins with the first refusal and is not extended by later ones, holds in all processes that share the store, and is
	// reflected in RetryAfter. A request that is larger than the quota does not begin one, nor does one that costs
	// nothing, or that could not be decided. It takes one more limit of the store, so leased limits
	// cannot have one.
	Penalty time.Duration
	// Wait is how long a request may wait in line until the limits admit it; 0 means that it is refused at once. It cannot be combined
	// with Penalty. Line counts those that wait; nil counts nothing.
	Wait time.Duration
	Line *Line
	// Failure is the failure mode; the zero value means the mode of Options.
	Failure store.Mode
	// Count is called for every request that was decided; nil disables it. It must be quick and
	// safe for concurrent use, and must not keep the key without copying it.
	Count func(key string, outcome Outcome)
	// Notify lists thresholds of the limits. Limits that are equal have the same ones.
	Notify []policy.Threshold
	// Crossed is called for every decision that crosses one upwards, as Count is. It is required if there are any.
	Crossed func(key string, limit *store.Limit, percent int)
}

// Error reports a policy that cannot be compiled.
type Error struct {
	Policy string // its name
	Option string // limits, overrides, plans, allow, block, penalty, wait or failure
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("policy %q: %s: %v", e.Policy, e.Option, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Options configures a Set. The zero value is valid, and counts in this process what the store does not answer.
type Options struct {
	// Failure is the failure mode of policies that set none. The zero value means store.FailLocal, or the default of the
	// failure layer that the store has.
	Failure store.Mode
	// Timeout, LocalBytes and Instances are options of the layers that New puts over a store that has no failure
	// layer; see stack.Options. A negative Timeout means none: every request calls the store, without a deadline, and if that
	// returns an error, store.FailOpen admits the request and all other modes refuse it.
	Timeout    time.Duration
	LocalBytes int64
	Instances  int
	// Prepare is called once for each set of limits of a policy, an override or a plan, and for policies that decide
	// together once for all their limits. policy.Decision.Note returns its result: header fields, for example. An error makes
	// the limits invalid.
	Prepare func(limits []slidegate.Limit) (note any, err error)
	// Before is the Set that this one replaces: if both have the same store, limits in both keep what the store remembers about
	// them, and layers that New has put over the store stay, with their options. Drain then waits for the releases of both.
	Before *Set
	// Closing ends when no request may stand in line anymore: those that do are refused. nil never ends.
	Closing context.Context
}
