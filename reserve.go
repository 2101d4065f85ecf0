package slidegate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/hook"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Reservation is what Reserve or Acquire took: an estimate, which Finish or Settle later replaces with the actual cost or
// Cancel returns, and slots, which all of them and Release free. It is a plain value that can be stored, sent to another
// process and settled there, by a limiter of the same store and namespace. One that was made while the store did not answer (see
// layer/stack) is settled only in the process that made it.
//
// Finish ends a reservation by what happened, and is made for a defer:
//
//	func answer(ctx context.Context, key, question string) (text string, err error) {
//		r, d, err := limiter.Reserve(ctx, key, 1000)
//		if err != nil || !d.Allowed {
//			...
//		}
//		var used []slidegate.Used // what is known to have been used, even if the work fails
//		defer func() { limiter.Finish(ctx, r, err, used...) }()
//		...
//	}
//
// A reservation is settled once, by whichever of Finish, Settle, SettleAll, Cancel and Release comes first. The store
// remembers its ID for at least a window and a part of the limit, which is longer than the units count, and further calls
// change nothing. So a call whose outcome is unknown can be repeated in that time. Later, an overrun is charged again,
// because it may have been used, and returning changes nothing.
//
// Cancel never returns what may have been used: after a Settle of this value or a copy of it in this process, even one that
// failed or was rejected, the units stay as they are. Reservations that were decoded separately do not know of each other.
type Reservation struct {
	// Version is the version of this format. Using a reservation of another version returns
	// ErrReservation.
	Version int    `json:"version"`
	ID      string `json:"id"`
	// Namespace is that of the limiter that made the reservation. Using it with a limiter of another one returns
	// ErrReservation.
	Namespace string           `json:"namespace,omitempty"`
	Group     string           `json:"group,omitempty"`
	Charges   []ReservedCharge `json:"charges"`

	ended *ended // shared by copies; nil if the reservation was put together by hand
}

// ended is what this process knows of the end of a reservation.
type ended struct {
	tried   atomic.Bool                // a Settle was called
	settled atomic.Pointer[Settlement] // by the first Settle that succeeded
	over    atomic.Bool                // a Settle or a Cancel was called, so nothing is to be renewed any more
}

// ReservedCharge is one limit's part of a Reservation.
type ReservedCharge struct {
	Limit Limit       `json:"limit"`
	Key   []byte      `json:"key"` // bytes, because keys need not be text
	Cost  int64       `json:"cost"`
	At    rule.Micros `json:"at"` // when the units were charged
	// By is 0 if the store charged them. Otherwise a process did in place of the store (see layer/stack), and only that one
	// can settle them: it is 1 if it counted nothing, and 1 plus the mark of the answer's At if it did. Two numbers, because some
	// JSON readers have 53 bits.
	By int `json:"by,omitempty"`
}

// UnmarshalJSON reads a reservation. It returns ErrReservation for one of another version.
func (r *Reservation) UnmarshalJSON(data []byte) error {
	type plain Reservation
	var format struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &format); err != nil {
		return fmt.Errorf("slidegate: %w: %w", ErrReservation, err)
	}
	if err := checkVersion(format.Version); err != nil {
		return err
	}
	read := plain{ended: new(ended)}
	if err := json.Unmarshal(data, &read); err != nil {
		return fmt.Errorf("slidegate: %w: %w", ErrReservation, err)
	}
	*r = Reservation(read)
	return nil
}

func checkVersion(version int) error {
	if version != hook.ReservationVersion {
		return fmt.Errorf("slidegate: %w: version: must be %d, not %d; use the version of the program that made the reservation",
			ErrReservation, hook.ReservationVersion, version)
	}
	return nil
}

func (c *call) reserve(ctx context.Context) (Reservation, Decision, error) {
	defer c.end()
	id := c.reserveID()
	if err := c.apply(ctx, rule.Take); err != nil {
		return Reservation{}, Decision{}, err
	}
	d := c.decision()
	if !d.Allowed {
		return Reservation{}, d, nil
	}
	return c.reservation(id), d, nil
}

// reserveID makes the request one that reserves, and returns the ID of the reservation.
func (c *call) reserveID() string {
	id := rand.Text()
	if c.limiter.once != nil {
		id = *c.limiter.once
	}
	c.batch[0].ID, c.batch[0].Hold = store.IDOf(id), true
	return id
}

// reservation returns what the last apply took.
func (c *call) reservation(id string) Reservation {
	r := Reservation{
		Version: hook.ReservationVersion, ID: id, Namespace: c.limiter.bound.namespace, Group: c.batch[0].Group,
		Charges: make([]ReservedCharge, len(c.charges)), ended: new(ended),
	}
	for i, charge := range c.charges {
		at, mark := answering.Unmark(c.answers[i].At)
		cost := charge.Cost
		if c.answers[i].Flags&rule.Repeated != 0 {
			cost = c.answers[i].Granted // what the first call with this ID took
		}
		r.Charges[i] = ReservedCharge{Limit: unbind(charge.Limit), Key: []byte(charge.Key), Cost: cost, At: at, By: mark + 1}
	}
	return r
}

// Acquire takes one slot of each in-flight limit and one unit of each other limit, all or none. Release frees the slots:
//
//	r, d, err := limiter.Acquire(ctx, "tenant:7")
//	if err != nil || !d.Allowed {
//		...
//	}
//	defer limiter.Release(ctx, r)
//
// Work that takes longer than the limit's time to live must call Renew while it runs, for example every third of it. To
// take more than one unit of other limits together with a slot, use Reserve. If Acquire returns an
// error of the store, the slot may be held until its time to live has passed; if ctx ends, see Reserve.
func (l *Limiter) Acquire(ctx context.Context, key string) (Reservation, Decision, error) {
	return l.Reserve(ctx, key, 1)
}

// AcquireWait waits in line, for at most a time or, if that is 0, until ctx ends, for one slot of each in-flight limit and one unit of each
// other limit, and keeps them until release is called: a semaphore for all processes that share the store. It renews them as KeepAlive does,
// for at most an hour; alive is ctx until they are lost, with the cause ErrLost. A slot that another process releases is noticed within 50ms.
// Errors are those of Wait. Since nobody knows when a slot will be released, that of a wait that was too long wraps context.DeadlineExceeded,
// and comes at its end.
//
//	alive, release, err := limiter.AcquireWait(ctx, "host:example.com", time.Minute)
//	if err != nil {
//		return err
//	}
//	defer release()
func (l *Limiter) AcquireWait(ctx context.Context, key string, wait time.Duration) (alive context.Context, release func(), err error) {
	if ctx == nil {
		return nil, nil, errNoContext
	}
	within := ctx
	switch {
	case wait < 0:
		return nil, nil, fmt.Errorf("slidegate: wait: must not be negative, got %v; 0 waits until ctx ends", wait)
	case wait > 0:
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	r, err := l.ReserveWait(within, key, 1)
	if err != nil {
		if within.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("slidegate: no slot was free within %v: %w", wait, err)
		}
		return nil, nil, err
	}
	alive, stop := l.KeepAlive(ctx, r, 0)
	return alive, sync.OnceFunc(func() {
		stop()
		l.Finish(ctx, r, nil)
	}), nil
}

// ReserveWait is Reserve, but waits in line until the estimate is admitted; see Wait.
func (l *Limiter) ReserveWait(ctx context.Context, key string, n int64) (Reservation, error) {
	return l.keyCall(key, n).oneSlot(1).reserveWait(ctx)
}

// Renew extends what a reservation holds, its slots and the units of its limits with Hold, by another time to live or Hold, counted from
// now. Allowed is false if some of it is no longer held, because it was settled, released or not renewed in time; the rest is renewed
// nevertheless. What is lost does not come back: reserve again, or stop the work. Renew may be repeated. It returns
// ErrReservation if the reservation holds nothing. KeepAlive calls it as long as necessary.
func (l *Limiter) Renew(ctx context.Context, r Reservation) (Decision, error) {
	c := newCall(l, len(r.Charges))
	if err := c.resume(&r); err != nil {
		c.fail(err)
	}
	for i := range r.Charges {
		if charge := &r.Charges[i]; charge.lasts() > 0 {
			c.addReserved(charge, charge.Cost)
		}
	}
	if len(c.charges) == 0 {
		c.fail(fmt.Errorf("slidegate: %w: it has neither slots nor held units to renew", ErrReservation))
	}
	return c.decide(ctx, rule.Renew)
}

// resume turns c into a request about a reservation.
func (c *call) resume(r *Reservation) error {
	if len(r.Charges) == 0 {
		return errNoCharges()
	}
	if r.ID == "" {
		return fmt.Errorf("slidegate: %w: id: missing; the store identifies a reservation by it", ErrReservation)
	}
	if own := c.limiter.bound.namespace; r.Namespace != own {
		return fmt.Errorf("slidegate: %w: it was made in the namespace %q, and this limiter has the namespace %q; "+
			"use a limiter of the reservation's namespace", ErrReservation, r.Namespace, own)
	}
	c.batch[0].Group, c.batch[0].ID = r.Group, store.IDOf(r.ID)
	return checkVersion(r.Version)
}

// addReserved adds one charge of a reservation, of which used units were used.
func (c *call) addReserved(charge *ReservedCharge, used int64) {
	limit, err := c.limiter.bound.bind(charge.Limit)
	if err != nil {
		c.fail(err)
		return
	}
	at := charge.At
	switch by := charge.By; {
	case by < 0 || by > answering.MaxMark+1:
		c.fail(fmt.Errorf("slidegate: %w: by: must be 0 to %d, not %d", ErrReservation, answering.MaxMark+1, by))
		return
	case by > 0:
		at = answering.Mark(at, by-1)
	}
	c.add(store.Charge{Limit: limit, Key: string(charge.Key), Cost: charge.Cost, Used: used, At: at})
}
