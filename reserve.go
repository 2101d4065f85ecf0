package slidegate

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// Used is what a request actually used of one limit of a Reservation.
type Used struct {
	// Limit is the limit's name or, if it has none, its text, such as "5/1m".
	Limit string
	// Key is needed only where a reservation has the same limit for several keys.
	Key string
	// Cost is how many units were used, 0 or more.
	Cost int64
}

// Settle replaces a reservation's estimates by what was used, limit by limit:
//
//	err := limiter.Settle(ctx, r, slidegate.Used{Limit: "tokens", Cost: 700})
//
// Limits that are not named stay as they were reserved. A limit that the reservation does not have, or has for several
// keys while Used.Key is empty, is an ErrReservation, and then nothing is settled.
//
// What was estimated too high is given back where it was charged, as far as that is still in the window. What was estimated
// too low is charged now, beyond the quota if need be: it has been used already. When some charges go down and others up,
// these are two requests to the store, and an error may mean that only the first was done.
//
// Settle finishes even if ctx has ended: the client may have gone, and what it used still counts. It keeps ctx's values,
// and takes at most store.FinishTime for each request to a store with round trips.
func (l *Limiter) Settle(ctx context.Context, r Reservation, used ...Used) error {
	actual := make([]int64, len(r.Charges))
	settled := make([]bool, len(r.Charges))
	for i := range r.Charges {
		actual[i] = r.Charges[i].Cost
	}
	for _, u := range used {
		i, err := r.find(u)
		if err != nil {
			return err
		}
		if settled[i] {
			return fmt.Errorf("slidegate: %w: %q is given twice; add up what was used", ErrReservation, u.Limit)
		}
		actual[i], settled[i] = u.Cost, true
	}
	return l.settle(ctx, r, actual)
}

// SettleAll is Settle with the same cost for every limit of the reservation. It is for limits that count the same thing, such
// as tokens per minute and tokens per day: it would charge 700 requests to a limit on requests.
func (l *Limiter) SettleAll(ctx context.Context, r Reservation, cost int64) error {
	actual := make([]int64, len(r.Charges))
	for i := range actual {
		actual[i] = cost
	}
	return l.settle(ctx, r, actual)
}

// Cancel gives all of a reservation back. It finishes even if ctx has ended, as Settle does.
func (l *Limiter) Cancel(ctx context.Context, r Reservation) error { return l.SettleAll(ctx, r, 0) }

// find returns the place of the charge that u is about.
func (r *Reservation) find(u Used) (int, error) {
	if len(r.Charges) == 0 {
		return 0, errNoCharges()
	}
	found, otherKey := -1, false
	for i := range r.Charges {
		charge := &r.Charges[i]
		switch {
		case !charge.Limit.isCalled(u.Limit):
		case u.Key != "" && u.Key != string(charge.Key):
			otherKey = true
		case found < 0:
			found = i
		case r.Charges[found].Limit != charge.Limit:
			return 0, fmt.Errorf("slidegate: %w: %q may be %q or %q; give the whole text", ErrReservation, u.Limit,
				r.Charges[found].Limit, charge.Limit)
		default:
			return 0, fmt.Errorf("slidegate: %w: it has %q for several keys; set Used.Key", ErrReservation, u.Limit)
		}
	}
	switch {
	case found >= 0:
		return found, nil
	case otherKey:
		return 0, fmt.Errorf("slidegate: %w: it has %q, but not for the key in Used.Key", ErrReservation, u.Limit)
	}
	return 0, fmt.Errorf("slidegate: %w: it has no limit %q; there are %s", ErrReservation, u.Limit, r.labels())
}

// isCalled reports whether text is what the limit is called: its name, or its text in any spelling.
func (l Limit) isCalled(text string) bool {
	if l.Name != "" && l.Name == text {
		return true
	}
	other, err := ParseLimit(text)
	if err != nil || other.Name != l.Name {
		return false
	}
	ours, err := l.compile()
	theirs, _ := other.compile()
	return err == nil && ours == theirs
}

// labels lists what the limits of a reservation are called.
func (r *Reservation) labels() string {
	var labels []string
	for i := range r.Charges {
		limit := r.Charges[i].Limit
		if label := strconv.Quote(cmp.Or(limit.Name, limit.String())); !slices.Contains(labels, label) {
			labels = append(labels, label)
		}
	}
	return strings.Join(labels, ", ")
}

func errNoCharges() error {
	return fmt.Errorf("slidegate: %w: it has no charges; was it refused?", ErrReservation)
}

// settle replaces the cost of each charge by the actual one.
func (l *Limiter) settle(ctx context.Context, r Reservation, actual []int64) error {
	if len(r.Charges) == 0 {
		return errNoCharges()
	}
	back, more := newCall(l, len(r.Charges)), newCall(l, len(r.Charges))
	for i, charge := range r.Charges {
		cost := actual[i]
		limit, err := l.bound.bind(charge.Limit)
		switch {
		case err != nil:
			back.fail(err)
		case cost < 0 || cost > rule.MaxQuota:
			back.fail(fmt.Errorf("slidegate: %w: what was used must be 0 to %d, not %d", ErrCost, int64(rule.MaxQuota), cost))
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
