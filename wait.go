package slidegate

import (
	"context"
	"fmt"
	"time"
)

// pause sleeps for d. If that is pointless, it returns the reason immediately.
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
