package slidegate

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// ErrLost is the cause of the end of a context of KeepAlive: what the reservation held is lost, so that others may use it now.
var ErrLost = errors.New("reservation lost")

// KeepAlive renews what a reservation holds, slots and the units of limits with Hold, until it is settled or cancelled in this process,
// ctx ends, stop is called, or longest has passed; 0 means an hour. It renews at a third of the shortest hold. The returned context ends
// with the cause ErrLost if something is lost because it could not be renewed in time, or when longest has passed: the work should stop
// then.
//
//	r, d, err := limiter.Reserve(ctx, key, estimate)
//	...
//	alive, stop := limiter.KeepAlive(ctx, r, 0)
//	defer stop()
func (l *Limiter) KeepAlive(ctx context.Context, r Reservation, longest time.Duration) (alive context.Context, stop context.CancelFunc) {
	alive, cancel := context.WithCancelCause(ctx)
	stop = func() { cancel(context.Canceled) }
	if shortest := r.shortestHold(); shortest > 0 {
		go l.keepAlive(alive, cancel, r, shortest, time.Now().Add(cmp.Or(longest, time.Hour)))
	}
	return alive, stop
}

func (l *Limiter) keepAlive(ctx context.Context, cancel context.CancelCauseFunc, r Reservation, shortest time.Duration, until time.Time) {
	renewed, pause := time.Now(), shortest/3
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(pause, time.Until(until))):
		}
		if r.isOver() {
			return
		}
		sent := time.Now()
		if !sent.Before(until) {
			cancel(ErrLost)
			return
		}
		d, err := l.Renew(ctx, r)
		switch {
		case err == nil && d.Allowed:
			renewed, pause = sent, shortest/3
		case r.isOver():
			return
		case err == nil, time.Since(renewed) >= shortest:
			cancel(ErrLost)
			return
		default: // try again soon: it ends if none of the attempts succeeds
			pause = shortest / 12
		}
	}
}

// isOver reports whether a Settle or a Cancel of the reservation, or a copy of it, was called in this process.
func (r *Reservation) isOver() bool { return r.ended != nil && r.ended.over.Load() }

// shortestHold returns how long the first of what a reservation holds lasts unless it is renewed; 0 if it holds nothing.
func (r *Reservation) shortestHold() (shortest time.Duration) {
	for i := range r.Charges {
		if own := r.Charges[i].lasts(); own > 0 && (shortest == 0 || own < shortest) {
			shortest = own
		}
	}
	return shortest
}

// lasts returns how long a charge is held unless it is renewed; 0 if it is not held.
func (c *ReservedCharge) lasts() time.Duration {
	if c.Cost == 0 {
		return 0
	}
	if c.Limit.Algorithm == rule.InFlight {
		return c.Limit.Window
	}
	return c.Limit.Hold
}
