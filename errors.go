package slidegate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A refusal is a Decision, never an error. An error means that the outcome is unknown, or that the request was invalid. No
// error text contains a key.
var (
	// ErrLimit is wrapped by errors that report an invalid limit.
	ErrLimit = rule.ErrLimit
	// ErrCost is wrapped by errors that report a cost below 0 or above 2^53-1.
	ErrCost = errors.New("invalid cost")
	// ErrConflict means that two different limits have the same address, so that they would share their counts, or that a
	// Limiter was given one limit twice. New also returns it for a limit without a name if another limiter on the same
	// store has a different limit at that address; see Limit.Name.
	ErrConflict = store.ErrConflict
	// ErrUnsupported means that the store lacks something that the request or the limit needs, or that the method does not
	// support the limit: Allow takes no slot of an in-flight limit.
	ErrUnsupported = store.ErrUnsupported
	// ErrNever is returned by Wait if waiting cannot help because the cost exceeds the quota.
	ErrNever = errors.New("cost exceeds what the limit can ever admit")
	// ErrLineFull is returned by Wait if too many callers wait for the key already.
	ErrLineFull = errors.New("the line is full")
	// ErrReservation means that a reservation cannot be settled or renewed as requested.
	ErrReservation = errors.New("invalid reservation")
	// ErrUnsettled means that the store cannot remember another settlement of the key. To ensure that nothing is returned
	// twice, it returned and charged no units; slots were released. Trying again later in the window may succeed.
	ErrUnsettled = errors.New("settlement not carried out")
)

// LimitError reports an invalid limit. It matches ErrLimit with errors.Is.
type LimitError struct {
	// Text is the limit as it was written; it is empty if the limit did not come from ParseLimit.
	Text string
	// Err names the field, the cause and the fix, without the package name, for the person who wrote the limit.
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

// DeadlineError is returned immediately by Wait if the context would end before the request is admitted. It matches
// context.DeadlineExceeded with errors.Is.
type DeadlineError struct {
	// RetryAfter is how long the wait would have taken, with everybody in this process who came before. If other processes take units too,
	// it is an estimate by the pace at which this one was served in the last window.
	RetryAfter time.Duration
	Place      int // in the line of this process, from 1
}

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("slidegate: the request would be admitted in %v, as number %d in line, after the deadline", e.RetryAfter, max(1, e.Place))
}

// Unwrap returns context.DeadlineExceeded.
func (e *DeadlineError) Unwrap() error { return context.DeadlineExceeded }
