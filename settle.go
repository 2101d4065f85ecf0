package slidegate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/rule"
)

// Used is what a request actually used of one limit of a Reservation.
type Used struct {
	// Limit is the limit's name or, if it has none, its text, such as "5/1m".
	Limit string
	// Key is needed only if a reservation has the same limit for several keys.
	Key string
	// Cost is how many units were used, 0 or more.
	Cost int64
}

// Settlement is the result of settling a reservation.
type Settlement struct {
	// Returned has one number for each charge of the reservation: how many units or slots were returned or, if negative, how
	// many units were charged in addition. Units that no longer count are not returned.
	Returned []int64
	// Repeated reports whether the reservation had been settled before: nothing changed, and Returned is what was done then.
	Repeated bool
}

// Settle replaces a reservation's estimates with what was used, limit by limit, and releases its slots:
//
//	_, err := limiter.Settle(ctx, r, slidegate.Used{Limit: "tokens", Cost: 700})
//
// Limits that are not named stay as they were reserved. If the reservation does not have a named limit, or has it for
// several keys while Used.Key is empty, Settle returns ErrReservation and settles nothing.
//
// If an estimate was too high, the difference is returned to where it was charged, as far as that is still in the window.
// If it was too low, the difference is charged now, even beyond the quota: it has been used already. All of this is one
// request to the store and is done once: a second Settle or Cancel of a reservation changes nothing and returns what the
// first one did. So after an error, which means that the outcome is unknown, it is right to try again with the same
// reservation, soon: see Reservation for how long that is safe. Finish does both. Slots are released whatever cost is given
// for them.
//
// Settle finishes even if ctx has ended: the client may have gone, and what it used still counts. It keeps ctx's values,
// and takes at most detach.MaxTime with a store that has round trips. ErrUnsettled means that the store could not
// remember another settlement, and that no units were returned or charged.
func (l *Limiter) Settle(ctx context.Context, r Reservation, used ...Used) (Settlement, error) {
	return settleUsed(ctx, l, r, used, nil)
}

// settleUsed is Settle, and sets answers, unless it is nil, to those of the store; see adapter.Settle.
func settleUsed(ctx context.Context, l *Limiter, r Reservation, used []Used, answers *[]rule.Answer) (Settlement, error) {
	r.ended.begin()
	actual := make([]int64, len(r.Charges))
	settled := make([]bool, len(r.Charges))
	for i := range r.Charges {
		actual[i] = r.Charges[i].Cost
	}
	for _, u := range used {
		i, err := r.find(u)
		if err != nil {
			return Settlement{}, err
		}
		if settled[i] {
			return Settlement{}, fmt.Errorf("slidegate: %w: %q is given twice; add up the costs", ErrReservation, u.Limit)
		}
		actual[i], settled[i] = u.Cost, true
	}
	return r.ended.end(l.settle(ctx, r, actual, answers))
}

// SettleAll is Settle with the same cost for every limit of the reservation. It is for limits that count the same thing,
// such as tokens per minute and tokens per day; on a limit of requests it would charge 700 requests for 700 tokens.
func (l *Limiter) SettleAll(ctx context.Context, r Reservation, cost int64) (Settlement, error) {
	r.ended.begin()
	return r.ended.end(l.settleAll(ctx, r, cost))
}

func (l *Limiter) settleAll(ctx context.Context, r Reservation, cost int64) (Settlement, error) {
	actual := make([]int64, len(r.Charges))
	for i := range actual {
		actual[i] = cost
	}
	return l.settle(ctx, r, actual, nil)
}

// Cancel returns everything a reservation took, units and slots: nothing of it was used. It finishes even if ctx has ended,
// and is done once, as Settle is. After a Settle that succeeded it changes nothing and returns what Settle did. After one
// that failed, or was rejected, the units may have been used: Cancel then frees only the slots and returns ErrReservation.
// See Reservation for how far it knows of a Settle.
func (l *Limiter) Cancel(ctx context.Context, r Reservation) (Settlement, error) {
	if r.ended != nil {
		r.ended.over.Store(true)
	}
	if r.ended == nil || !r.ended.tried.Load() {
		return l.settleAll(ctx, r, 0)
	}
	if done := r.ended.settled.Load(); done != nil {
		return Settlement{Returned: slices.Clone(done.Returned), Repeated: true}, nil
	}
	if _, err := l.releaseSlots(ctx, r); err != nil {
		return Settlement{}, err
	}
	return Settlement{}, fmt.Errorf("slidegate: %w: it was to be settled before, so its units may have been used and stay charged; "+
		"call Settle again instead of Cancel", ErrReservation)
}

// begin records that a reservation is being settled, and end that it was.
func (e *ended) begin() {
	if e != nil {
		e.tried.Store(true)
		e.over.Store(true)
	}
}

func (e *ended) end(s Settlement, err error) (Settlement, error) {
	if e != nil && err == nil {
		e.settled.CompareAndSwap(nil, &Settlement{Returned: slices.Clone(s.Returned)})
	}
	return s, err
}

// Release frees the slots of a reservation and leaves the units of other limits charged: it is Settle without any Used. It
// finishes even if ctx has ended, and may be repeated.
func (l *Limiter) Release(ctx context.Context, r Reservation) (Settlement, error) {
	return l.Settle(ctx, r)
}

// releaseSlots frees the slots of a reservation, and does not touch its units: those can still be settled.
func (l *Limiter) releaseSlots(ctx context.Context, r Reservation) (Settlement, error) {
	slots := r
	slots.Charges = nil
	for _, charge := range r.Charges {
		if charge.Limit.Algorithm == InFlight {
			slots.Charges = append(slots.Charges, charge)
		}
	}
	if len(slots.Charges) == 0 {
		return Settlement{}, nil
	}
	return l.settleAll(ctx, slots, 0)
}

// find returns the index of the charge that u refers to.
func (r *Reservation) find(u Used) (int, error) {
	if len(r.Charges) == 0 {
		return 0, errNoCharges()
	}
	found, otherKey := -1, false
	for i := range r.Charges {
		charge := &r.Charges[i]
		switch {
		case !charge.Limit.matchesText(u.Limit):
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
	return 0, fmt.Errorf("slidegate: %w: it has no limit %q; want one of %s", ErrReservation, u.Limit, r.labels())
}

// matchesText reports whether text is the name of the limit, or its text in any spelling.
func (l Limit) matchesText(text string) bool {
	if l.Name != "" && l.Name == text {
		return true
	}
	other, err := ParseLimit(text)
	if err != nil || other.Name != l.Name {
		return false
	}
	own, err := l.compile()
	others, otherErr := other.compile()
	return err == nil && otherErr == nil && own == others
}

// labels lists the labels of a reservation's limits.
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

// settle replaces the cost of each charge with the actual one.
func (l *Limiter) settle(ctx context.Context, r Reservation, actual []int64, answers *[]rule.Answer) (Settlement, error) {
	c := newCall(l, len(r.Charges))
	defer c.end()
	if err := c.resume(&r); err != nil {
		return Settlement{}, err
	}
	for i := range r.Charges {
		if used := actual[i]; used < 0 || used > rule.MaxQuota {
			return Settlement{}, fmt.Errorf("slidegate: %w: what was used must be 0 to %d, not %d", ErrCost, int64(rule.MaxQuota), used)
		}
		c.addReserved(&r.Charges[i], actual[i])
	}
	if err := c.apply(ctx, rule.Settle); err != nil {
		return Settlement{}, err
	}
	if answers != nil {
		for _, at := range c.indexes {
			*answers = append(*answers, c.answers[at])
		}
	}
	return c.settlement()
}

// settlement returns the Settlement that the last apply made.
func (c *call) settlement() (Settlement, error) {
	s := Settlement{Returned: make([]int64, len(c.indexes))}
	var flags rule.Flags
	for i := range c.answers {
		flags |= c.answers[i].Flags
		s.Returned[slices.Index(c.indexes, i)] = c.answers[i].Granted // the first of several charges with one address reports for all
	}
	s.Repeated = flags&rule.Repeated != 0
	if flags&rule.Unsettled != 0 {
		return s, fmt.Errorf("slidegate: %w: the store cannot remember another settlement of this key; "+
			"no units were given back or charged; try again later", ErrUnsettled)
	}
	return s, nil
}
