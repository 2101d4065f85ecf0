package slidegate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A refusal is a Decision, never an error: an error means that the answer is unknown, or that the question was wrong.
// No error text contains a key.
var (
	// ErrLimit is wrapped by every error about a limit that cannot be.
	ErrLimit = rule.ErrLimit
	// ErrCost is wrapped by every error about a cost below 0 or above 2^53-1.
	ErrCost = errors.New("invalid cost")
	// ErrConflict means that two limits have the same address, so that they would be charged to the same counts, but
	// are not the same limit; or that a Limiter was given one limit twice. New returns it also for limits without a name
	// if another limiter on the same store has different ones; see Limit.Name.
	ErrConflict = store.ErrConflict
	// ErrUnsupported means that the store lacks something that the request or the limit needs, or that the method cannot be used
	// with the limit: Allow takes no slot of an in-flight limit.
	ErrUnsupported = store.ErrUnsupported
	// ErrNever is returned by Wait when no waiting helps: the cost exceeds the quota.
	ErrNever = errors.New("cost exceeds what the limit ever admits")
	// ErrReservation means that a reservation cannot be settled as asked.
	ErrReservation = errors.New("invalid reservation")
	// ErrUnsettled means that the store remembers as many settlements of the key as it can. So that nothing is ever given back
	// twice, it gave nothing back and charged nothing; slots were released. Trying again later in the window may succeed.
	ErrUnsettled = errors.New("settlement not carried out")
)

// LimitError reports an invalid limit. It is ErrLimit to errors.Is.
type LimitError struct {
	// Text is the limit as it was written; empty if it was not read by ParseLimit.
	Text string
	// Err names the field, the cause and the fix, without the name of this package, for people who wrote the limit.
	Err error
}

func (e *LimitError) Error() string {
	if e.Text == "" {
		return "slidegate: " + e.Err.Error()
	}
	return fmt.Sprintf("slidegate: %v (in %q)", e.Err, e.Text)
}

// Unwrap returns Err, which wraps ErrLimit.
func (e *LimitError) Unwrap() error { return e.Err }

// DeadlineError is returned by Wait, at once, when the context would end before the request is admitted. It is a
// context.DeadlineExceeded to errors.Is.
type DeadlineError struct {
	RetryAfter time.Duration // how long it would have taken
}

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("slidegate: admitted only in %v, after the deadline", e.RetryAfter)
}

// Unwrap returns context.DeadlineExceeded.
func (e *DeadlineError) Unwrap() error { return context.DeadlineExceeded }
