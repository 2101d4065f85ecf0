package httplimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
)

// RefusedError is why a Transport did not send a request: nothing of it left the process, so it can be made again whatever
// its method. http.Client returns it inside of a *url.Error, where errors.As finds it. It is also slidegate.ErrNever if no
// waiting helps, and context.DeadlineExceeded if waiting would have outlasted the request's deadline.
type RefusedError struct {
	// RetryAfter is how long to wait before the request may be sent, if nothing else is until then; slidegate.Never if its
	// cost exceeds the limit. 0 means that the limiter could not tell.
	RetryAfter time.Duration
	// Limit is which limit refused: the name of our own, or its text if it has none. Of a server's limit it is the name that
	// came with RateLimit, cut after 64 bytes, and empty if no name came.
	Limit string
	// Server says that the server asked to be left alone. Otherwise the Transport's own limiter refused.
	Server bool

	cause error
}

func (e *RefusedError) Error() string {
	who := "our own limit"
	if e.Server {
		who = "the server's limit"
	}
	if e.Limit != "" {
		who = fmt.Sprintf("%s %q", who, e.Limit)
	}
	switch {
	case e.RetryAfter == slidegate.Never:
		return "httplimit: not sent: the cost exceeds what " + who + " ever admits"
	case e.RetryAfter <= 0:
		return "httplimit: not sent: " + who + " refuses it, and not for a known time"
	case e.cause != nil:
		return fmt.Sprintf("httplimit: not sent: %s admits it only in %v, after the deadline", who, e.RetryAfter)
	}
	return fmt.Sprintf("httplimit: not sent: %s admits it in %v", who, e.RetryAfter)
}

// Unwrap returns slidegate.ErrNever, context.DeadlineExceeded or nil.
func (e *RefusedError) Unwrap() error { return e.cause }

// Timeout reports whether the request's deadline was too near to wait. A *url.Error asks for it.
func (e *RefusedError) Timeout() bool { return errors.Is(e.cause, context.DeadlineExceeded) }
