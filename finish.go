package slidegate

import (
	"context"
	"errors"

	"github.com/slidegate/slidegate/internal/detach"
)

// Finish ends a reservation by what happened to the work. It is made for a defer; see Reservation:
//
//   - Used given: the limits are settled to what was used, whatever err is, and limits that are not named stay as reserved.
//   - Nothing used, and err is nil: everything stays as reserved.
//   - Nothing used, and err is not nil: everything is returned. Pass what was used if the work failed after it had begun.
//
// Slots are released in any case. If the function panics, err is still nil in a deferred call, and the estimate stays.
//
// If the outcome is unknown, Finish sends the same again up to three times, all of it within detach.MaxTime. If it fails
// nevertheless, what was reserved stays charged: it never returns what may have been used. Like Settle, it finishes even if
// ctx has ended.
func (l *Limiter) Finish(ctx context.Context, r Reservation, err error, used ...Used) (s Settlement, failed error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detach.MaxTime)
	defer cancel()
	detach.Retry(ctx, func() (again bool) {
		if err != nil && len(used) == 0 {
			s, failed = l.Cancel(ctx, r)
		} else {
			s, failed = l.Settle(ctx, r, used...)
		}
		return failed != nil && isUnknown(failed)
	})
	return s, failed
}

// isUnknown reports whether an error leaves open what the store did, so that sending the request again may help.
func isUnknown(err error) bool {
	for _, known := range []error{ErrReservation, ErrUnsettled, ErrCost, ErrLimit, ErrConflict, ErrUnsupported} {
		if errors.Is(err, known) {
			return false
		}
	}
	return true
}
