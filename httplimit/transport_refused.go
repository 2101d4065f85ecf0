package httplimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
)

// RefusedError reports why a Transport did not send a request: nothing was sent, so it can be made again whatever its method.
// http.Client returns it inside a *url.Error, where errors.As finds it. It is also slidegate.ErrNever if no waiting helps, and
// context.DeadlineExceeded if waiting would have outlasted the request's deadline.
type RefusedError struct {
	// RetryAfter is how long to wait before the request may be sent, if no other request is sent until then; slidegate.Never if
	// its cost exceeds the limit. 0 means that the time is unknown.
	RetryAfter time.Duration
	// Limit is the limit that refused: the name of the transport's own limit, or its text if it has none. For a server's limit
	// it is the name in RateLimit, cut to 64 bytes, or empty if there was none.
	Limit string
	// Server reports whether the server asked the client to wait. Otherwise the Transport's own limiter refused.
	Server bool

	cause error
}

func (e *RefusedError) Error() string {
	limit := "our own limit"
	if e.Server {
		limit = "the server's limit"
	}
	if e.Limit != "" {
		limit = fmt.Sprintf("%s %q", limit, e.Limit)
	}
	switch {
	case e.RetryAfter == slidegate.Never:
		return "httplimit: not sent: the cost exceeds what " + limit + " ever admits"
	case e.RetryAfter <= 0:
		return "httplimit: not sent: " + limit + " refuses it, for an unknown time"
	case e.cause != nil:
		return fmt.Sprintf("httplimit: not sent: %s admits it only in %v, after the deadline", limit, e.RetryAfter)
	}
	return fmt.Sprintf("httplimit: not sent: %s admits it in %v", limit, e.RetryAfter)
}

// Unwrap returns slidegate.ErrNever, context.DeadlineExceeded or nil.
func (e *RefusedError) Unwrap() error { return e.cause }

// Timeout reports whether the request's deadline was too near to wait. *url.Error calls it.
func (e *RefusedError) Timeout() bool { return errors.Is(e.cause, context.DeadlineExceeded) }
