package store

import (
	"context"
	"time"
)

// FinishTime is how long a request may take after its caller has gone; see Detach.
const FinishTime = 5 * time.Second

// Detach returns a context for requests that must be carried out even if their caller has gone: those that return units, or
// charge units that have been used already. It has the values of ctx, but neither its end nor its deadline. For a store
// with round trips it ends after FinishTime. A layer below may allow less time.
func Detach(ctx context.Context, traits Traits) (context.Context, context.CancelFunc) {
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	if traits.RoundTrips == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, FinishTime)
}
