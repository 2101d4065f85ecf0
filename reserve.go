package slidegate

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Reservation is what Reserve took: an estimate that Settle later replaces by the true cost, or Cancel gives back. It is
// a plain value that can be stored, sent to another process and settled there, over the same store and namespace.
//
// Nothing remembers that a reservation was settled: settling or cancelling it twice gives back, or charges, twice. ID is
// there for a caller who needs to remember.
type Reservation struct {
	ID      string           `json:"id"`
	Group   string           `json:"group,omitempty"`
	Charges []ReservedCharge `json:"charges"`
}

// ReservedCharge is one limit's part of a Reservation.
type ReservedCharge struct {
	Limit Limit  `json:"limit"`
	Key   []byte `json:"key"` // bytes, because keys need not be text
	Cost  int64  `json:"cost"`
	At    Micros `json:"at"` // the store's time at which the units were charged
}

func (c *call) reserve(ctx context.Context) (Reservation, Decision, error) {
	defer c.end()
	if err := c.apply(ctx, rule.Take); err != nil {
		return Reservation{}, Decision{}, err
	}
	d := c.decision()
	if !d.Allowed {
		return Reservation{}, d, nil
	}
	r := Reservation{ID: rand.Text(), Group: c.batch[0].Group, Charges: make([]ReservedCharge, len(c.charges))}
	for i, charge := range c.charges {
		r.Charges[i] = ReservedCharge{
			Limit: Unbind(charge.Limit), Key: []byte(charge.Key), Cost: charge.Cost, At: c.answers[i].At,
		}
	}
	return r, d, nil
}

// Settle replaces a reservation's estimate by the true cost: one number for all its charges, or one for each. What was
// estimated too much is given back where it was charged, as far as that is still in the window. What was estimated too
// little is charged now, beyond the quota if need be: it has been used already. When some charges go down and others
// up, these are two requests to the store, and an error may mean that only the first was done.
func (l *Limiter) Settle(ctx context.Context, r Reservation, actual ...int64) error {
	if len(r.Charges) == 0 {
		return fmt.Errorf("slidegate: %w: it has no charges; was it refused?", ErrReservation)
	}
	if len(actual) != 1 && len(actual) != len(r.Charges) {
		return fmt.Errorf("slidegate: %w: %d true costs for %d charges; give one, or one for each",
			ErrReservation, len(actual), len(r.Charges))
	}
	back, more := newCall(l, len(r.Charges)), newCall(l, len(r.Charges))
	for i, charge := range r.Charges {
		cost := actual[min(i, len(actual)-1)]
		limit, err := l.bound.bind(charge.Limit)
		switch {
		case err != nil:
			back.fail(err)
		case cost < 0:
			back.fail(fmt.Errorf("slidegate: %w: the true cost must not be negative, it is %d", ErrCost, cost))
		case cost < charge.Cost:
			back.add(store.Charge{Limit: limit, Key: string(charge.Key), Cost: charge.Cost - cost, At: charge.At})
		case cost > charge.Cost:
			more.add(store.Charge{Limit: limit, Key: string(charge.Key), Cost: cost - charge.Cost})
		}
	}
	more.fail(back.err)
	back.fail(more.err) // nothing is given back either: the caller will settle again
	back.batch[0].Group, more.batch[0].Group = r.Group, r.Group
	if err := back.settle(ctx, rule.GiveBack); err != nil {
		more.end()
		return err
	}
	return more.settle(ctx, rule.Charge)
}

// settle sends one half of a settlement, if there is anything in it.
func (c *call) settle(ctx context.Context, op rule.Op) error {
	defer c.end()
	if c.err == nil && len(c.charges) == 0 {
		return nil
	}
	return c.apply(ctx, op)
}

// Cancel gives all of a reservation back.
func (l *Limiter) Cancel(ctx context.Context, r Reservation) error { return l.Settle(ctx, r, 0) }
