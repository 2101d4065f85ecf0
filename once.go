package slidegate

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Once returns a limiter with the same limits whose next call counts once, under an ID that the caller chose for it: a call that is sent
// again with the same ID, limits and keys because its answer was lost charges nothing. It returns what the first one did, with the flag
// rule.Repeated. That is for Allow, AllowN, Wait, Reserve and Acquire, and for those of For and With; Peek needs no ID, and other
// methods that charge or return units report ErrUnsupported.
//
//	d, err := limiter.Once(messageID).Allow(ctx, key)
//
// The store remembers an ID, by the address of the first limit, for at least a window and a part, in bounded number; a call beyond that is
// charged and has the flag rule.NotOnce. A refusal is not remembered: the call is decided when it is sent again. Remembering takes a
// write, so requests with an ID are never answered from a lease or from the cache of refusals.
//
// A repeat renews nothing: if what a reservation held has ended since, renewing or settling it says so. Use an ID for one method, with one
// cost. A call that was cancelled is refused for good, with the flag rule.Repeated.
//
// The ID of a Reservation that is made this way is the given one. Choose an ID that no other call has, such as that of a message or a random one.
func (l *Limiter) Once(id string) *Limiter {
	once := *l
	once.once, once.taker, once.soleTaker = &id, nil, nil
	return &once
}

// CancelCall cancels the call that was made with Once and the same ID, limits and key: it returns what the call took, charged or held,
// as Cancel does. If the call has not arrived yet, it will be refused. So a call whose answer was lost can be cancelled without knowing
// what it did:
//
//	_, err := limiter.Once(id).CancelCall(ctx, key)
func (l *Limiter) CancelCall(ctx context.Context, key string) (Settlement, error) {
	return l.keyCall(key, 0).cancelCall(ctx)
}

// CancelCall cancels the call that was made with these claims and the limiter's ID; see Limiter.CancelCall.
func (c Claims) CancelCall(ctx context.Context) (Settlement, error) { return c.call().cancelCall(ctx) }

func (c *call) cancelCall(ctx context.Context) (Settlement, error) {
	defer c.end()
	if c.limiter.once == nil {
		c.fail(fmt.Errorf("slidegate: %w: the limiter has no ID; call it as in limiter.Once(id).CancelCall", ErrReservation))
	} else {
		c.batch[0].ID, c.batch[0].Once = store.IDOf(*c.limiter.once), true
	}
	for i := range c.charges {
		c.charges[i].Cost = 0
	}
	if err := c.apply(ctx, rule.Settle); err != nil {
		return Settlement{}, err
	}
	return c.settlement()
}

// useID gives a request the ID of the limiter, if it has one.
func (c *call) useID(op rule.Op) error {
	switch op {
	case rule.Take:
		if *c.limiter.once == "" {
			return fmt.Errorf("slidegate: %w: the ID of a call must not be empty", ErrReservation)
		}
		c.batch[0].ID, c.batch[0].Once = store.IDOf(*c.limiter.once), true
	case rule.TakeUpTo, rule.Charge, rule.GiveBack, rule.Reset:
		return fmt.Errorf("slidegate: %w: Once is for Allow, AllowN, Wait, Reserve and Acquire", ErrUnsupported)
	}
	return nil
}
