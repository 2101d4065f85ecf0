package slidegate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slidegate/slidegate/internal/line"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// wait stands in line for the call's charges.
func (c *call) wait(ctx context.Context) error {
	defer c.end()
	if c.slots {
		c.fail(errSlots())
	}
	if err := c.check(ctx, rule.Take); err != nil {
		return err
	}
	request := c.inLine()
	if c.limiter.once != nil {
		request.Take = c.takeByID()
	}
	return waitError(line.Wait(ctx, &request))
}

// reserveWait stands in line for a reservation.
func (c *call) reserveWait(ctx context.Context) (Reservation, error) {
	defer c.end()
	id := c.reserveID()
	if err := c.check(ctx, rule.Take); err != nil {
		return Reservation{}, err
	}
	request := c.inLine()
	request.Take = c.takeByID()
	if err := line.Wait(ctx, &request); err != nil {
		return Reservation{}, waitError(err)
	}
	return c.reservation(id), nil
}

// waitWith stands in line for charges that take takes with admit; see adapter.WaitWith.
func waitWith(
	ctx context.Context, l *Limiter, key string, n int64,
	take func(ctx context.Context, admit func(context.Context) (Decision, error)) (Decision, error),
) error {
	c := l.keyCall(key, n)
	defer c.end()
	if l.once == nil { // so that what is taken for a caller that leaves meanwhile is given back
		c.batch[0].ID = store.IDOf(rand.Text())
	}
	if err := c.check(ctx, rule.Take); err != nil {
		return err
	}
	request, own := c.inLine(), c.takeByID()
	answers := make([]rule.Answer, len(c.charges))
	request.Take = func(ctx context.Context) ([]rule.Answer, error) {
		asked := false
		d, err := take(ctx, func(ctx context.Context) (Decision, error) {
			asked = true
			if _, err := own(ctx); err != nil {
				return Decision{}, err
			}
			return c.decision(), nil
		})
		switch {
		case err != nil:
			return nil, err
		case asked:
			return c.answers, nil
		}
		for i := range answers { // something else refused
			answers[i] = rule.Answer{RetryAfter: toMicros(d.RetryAfter)}
		}
		return answers, nil
	}
	return waitError(line.Wait(ctx, &request))
}

// toMicros rounds up, so that nobody asks too early.
func toMicros(d time.Duration) rule.Micros {
	if d == Never {
		return rule.Never
	}
	return rule.Micros((d + time.Microsecond - 1) / time.Microsecond)
}

// inLine returns the call as a request that waits.
func (c *call) inLine() line.Request {
	return line.Request{
		Store: c.limiter.store, Scope: c.limiter.bound.scope, Group: c.batch[0].Group, Charges: c.charges, Peeks: c.countsRefused(),
	}
}

// countsRefused reports whether a refusal would postpone the admission, so that a waiter peeks first.
func (c *call) countsRefused() bool {
	return slices.ContainsFunc(c.charges, func(charge store.Charge) bool { return charge.Limit.Rule().CountRefused })
}

// takeByID returns a function that takes the charges of a call with an ID.
func (c *call) takeByID() func(context.Context) ([]rule.Answer, error) {
	peeks := c.limiter.once == nil && c.countsRefused() // not at first, because a peek does not find a call that was made before
	return func(ctx context.Context) ([]rule.Answer, error) {
		if peeks {
			if err := c.apply(ctx, rule.Peek); err != nil || !c.decision().Allowed {
				return c.answers, err
			}
		}
		peeks = c.countsRefused()
		if err := c.apply(ctx, rule.Take); err != nil {
			return nil, err
		}
		if d := c.decision(); !d.Allowed && d.Flags&rule.Repeated != 0 {
			return nil, fmt.Errorf("slidegate: %w: the call with this ID was cancelled; waiting does not help", ErrReservation)
		}
		return c.answers, nil
	}
}

// waitError returns the error of a wait as callers see it.
func waitError(err error) error {
	var late *line.Late
	switch {
	case errors.As(err, &late):
		return &DeadlineError{RetryAfter: late.After, Place: late.Place}
	case errors.Is(err, line.ErrNever):
		return fmt.Errorf("slidegate: %w", ErrNever)
	case errors.Is(err, line.ErrFull):
		return fmt.Errorf("slidegate: %w: %d callers wait for this key already; refuse further ones", ErrLineFull, line.MaxLength)
	}
	return err
}
