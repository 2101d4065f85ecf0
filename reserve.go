package slidegate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Reservation is what Reserve or Acquire took: an estimate, which Settle later replaces with the actual cost or Cancel
// returns, and slots, which Settle, Cancel and Release free. It is a plain value that can be stored, sent to another
// process and settled there, over the same store and namespace.
//
// A reservation is settled once, by whichever of Settle, SettleAll, Cancel and Release comes first. The store remembers its
// ID for longer than the units count, and further calls change nothing. So a call whose outcome is unknown can be repeated,
// and a deferred Cancel does nothing after Settle:
//
//	r, d, err := limiter.Reserve(ctx, key, 1000)
//	if err != nil || !d.Allowed {
//		...
//	}
//	defer limiter.Cancel(ctx, r) // if the work fails
//	...
//	for range 3 {
//		if _, err = limiter.SettleAll(ctx, r, used); err == nil {
//			break
//		}
//	}
type Reservation struct {
	// Version is the version of this format: ReservationVersion, or 0 in reservations made before versions were introduced.
	// In those, a limit that names no algorithm is a SlidingWindow. Using a reservation of a newer version returns
	// ErrReservation.
	Version int              `json:"version"`
	ID      string           `json:"id"`
	Group   string           `json:"group,omitempty"`
	Charges []ReservedCharge `json:"charges"`
}

// ReservedCharge is one limit's part of a Reservation.
type ReservedCharge struct {
	Limit Limit  `json:"limit"` // it names its algorithm; see Unbind
	Key   []byte `json:"key"`   // bytes, because keys need not be text
	Cost  int64  `json:"cost"`
	At    Micros `json:"at"` // the store's time at which the units were charged
}

// ReservationVersion is the version of Reservation that this package writes.
const ReservationVersion = 2

// MarshalJSON writes r in version ReservationVersion.
func (r Reservation) MarshalJSON() ([]byte, error) {
	type plain Reservation
	return json.Marshal(plain(r.upgrade()))
}

// UnmarshalJSON reads reservations of this version and older ones, and converts them to this version. It returns
// ErrReservation for a newer one.
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
	var read plain
	if err := json.Unmarshal(data, &read); err != nil {
		return fmt.Errorf("slidegate: %w: %w", ErrReservation, err)
	}
	*r = Reservation(read).upgrade()
	return nil
}

// upgrade returns r converted to this version.
func (r Reservation) upgrade() Reservation {
	if r.Version >= ReservationVersion {
		return r
	}
	r.Version, r.Charges = ReservationVersion, slices.Clone(r.Charges)
	for i := range r.Charges {
		if limit := &r.Charges[i].Limit; limit.Algorithm == DefaultAlgorithm && limit.Calendar == 0 {
			limit.Algorithm = SlidingWindow
		}
	}
	return r
}

func checkVersion(version int) error {
	if version > ReservationVersion || version < 0 {
		return fmt.Errorf("slidegate: %w: version %d, but this program supports up to %d; upgrade it to the version that made the reservation",
			ErrReservation, version, ReservationVersion)
	}
	return nil
}

func (c *call) reserve(ctx context.Context) (Reservation, Decision, error) {
	defer c.end()
	id := rand.Text()
	c.batch[0].ID = store.IDOf(id)
	if err := c.apply(ctx, rule.Take); err != nil {
		return Reservation{}, Decision{}, err
	}
	d := c.decision()
	if !d.Allowed {
		return Reservation{}, d, nil
	}
	r := Reservation{
		Version: ReservationVersion, ID: id, Group: c.batch[0].Group, Charges: make([]ReservedCharge, len(c.charges)),
	}
	for i, charge := range c.charges {
		r.Charges[i] = ReservedCharge{
			Limit: Unbind(charge.Limit), Key: []byte(charge.Key), Cost: charge.Cost, At: c.answers[i].At,
		}
	}
	return r, d, nil
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
// take more than one unit of other limits together with a slot, use Reserve or Claims.Acquire. If Acquire returns an
// error, the slot may be held until its time to live has passed.
func (l *Limiter) Acquire(ctx context.Context, key string) (Reservation, Decision, error) {
	return l.Reserve(ctx, key, 1)
}

// Renew extends the slots of a reservation by another time to live, counted from now. Allowed is false if one of them
// is no longer held, because it was released or not renewed in time; the others are renewed nevertheless. A lost slot
// does not come back: acquire another one, or stop the work. Renew may be repeated. It returns ErrReservation if the
// reservation has no slots.
func (l *Limiter) Renew(ctx context.Context, r Reservation) (Decision, error) {
	c := newCall(l, len(r.Charges))
	r = r.upgrade()
	if err := c.resume(&r); err != nil {
		c.fail(err)
	}
	for i := range r.Charges {
		if charge := &r.Charges[i]; charge.Limit.Algorithm == InFlight {
			c.addReserved(charge, charge.Cost)
		}
	}
	if len(c.charges) == 0 {
		c.fail(fmt.Errorf("slidegate: %w: it has no slots to renew", ErrReservation))
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
	c.add(store.Charge{Limit: limit, Key: string(charge.Key), Cost: charge.Cost, Used: used, At: charge.At})
}
