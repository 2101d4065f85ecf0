// Package detach carries out requests whose caller has gone, or may go: those that return units, that charge units which have been used
// already, and that take units under an ID.
package detach

import (
	"context"
	"time"

	"github.com/slidegate/slidegate/store"
)

// MaxTime is how long a request may take after its caller has gone.
const MaxTime = 5 * time.Second

// Context returns a context for requests that must be carried out even if their caller has gone: those that return units, or
// charge units that have been used already. It has the values of ctx, but neither its end nor its deadline. For a store
// with round trips it ends after MaxTime. A layer below may allow less time.
func Context(ctx context.Context, traits store.Traits) (context.Context, context.CancelFunc) {
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	if traits.RoundTrips == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, MaxTime)
}

// HasEnded reports whether the caller's own time has ended. A store may see that by its own clock before the context does.
func HasEnded(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= 0
}
