package slidegate

import (
	"context"
	"fmt"
	"time"
)

// pause sleeps for d. If waiting cannot help, it immediately returns an error that says why.
func pause(ctx context.Context, d time.Duration) error {
	if d == Never {
		return fmt.Errorf("slidegate: %w", ErrNever)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return &DeadlineError{RetryAfter: d}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
