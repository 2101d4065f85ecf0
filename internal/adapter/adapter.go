// Package adapter has what the packages of this repository need of limits and limiters beyond what users need: limits as stores see them,
// the parts of a Limiter, and decisions from a store's answers. Middleware, layers, the policy engine, the service and tests use it.
package adapter

import (
	"context"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/hook"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// ReservationVersion is the version of slidegate.Reservation that package slidegate reads and writes.
const ReservationVersion = hook.ReservationVersion

// Bind checks a limit and binds it to a namespace, as stores and layers need it. The label of a limit without a name is its text as
// written, such as "5/1m", even if the text leaves the algorithm to the default.
var Bind = hook.Bind.(func(namespace string, limit slidegate.Limit) (*store.Limit, error))

// Unbind returns the limit that b was made from. It names no algorithm if that is left to the default, unless the limit has an option from
// which the algorithm follows. Segments and Burst are left out if they have their default values.
var Unbind = hook.Unbind.(func(b *store.Limit) slidegate.Limit)

// Check returns nil if a limit is valid, and otherwise a slidegate.LimitError that names the field and the fix.
func Check(limit slidegate.Limit) error {
	_, err := Bind("", limit)
	return err
}

// Combine returns the decision that a store's answers to the charges of one request make, as a Limiter does. A refusal reports the limit
// with the latest RetryAfter, an admission the limit with the least Remaining; either is flagged ClockMoved if one of the limits is. If
// there are several limits, Answers holds the answer of each. Combine keeps no reference to its arguments.
var Combine = hook.Combine.(func(charges []store.Charge, answers []rule.Answer) slidegate.Decision)

// Bound returns the limits of a limiter that apply to every key as stores see them, in the order of Limits.
var Bound = hook.Bound.(func(l *slidegate.Limiter) []*store.Limit)

// Over returns a limiter with the same limits and namespace over the store that wrap returns. Wrap receives the limiter's store, so that a
// middleware can put a layer under a limiter created elsewhere.
var Over = hook.Over.(func(l *slidegate.Limiter, wrap func(store.Store) (store.Store, error)) (*slidegate.Limiter, error))

// WaitWith is Limiter.Wait for a caller that decides by more than the limits. Take is called when it is the caller's turn, and returns what
// admit returns, which asks the limiter, or a refusal with the RetryAfter after which it is to be called again.
var WaitWith = hook.WaitWith.(func(ctx context.Context, l *slidegate.Limiter, key string, n int64,
	take func(ctx context.Context, admit func(context.Context) (slidegate.Decision, error)) (slidegate.Decision, error)) error)

// Declare registers the limits of a limiter with its store. It returns slidegate.ErrConflict if one of them has no name and would share the
// counts of another limiter's limit; see Limit.Name. New calls it. It is for limiters from With, which does not call it because its limits
// may share counts.
var Declare = hook.Declare.(func(l *slidegate.Limiter) error)

// Settle is Limiter.Settle, and sets answers to what the store answered for each charge of the reservation. Charges with the same address
// have the same answer.
var Settle = hook.Settle.(func(ctx context.Context, l *slidegate.Limiter, r slidegate.Reservation, used []slidegate.Used,
	answers *[]rule.Answer) (slidegate.Settlement, error))
