package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
)

// Settlement is the result of ending a reservation, as the client receives it.
type Settlement struct {
	Limits   []SettledLimit // one per charge of the reservation, in the same order
	Repeated bool           // the reservation had been settled before: nothing changed, and Limits repeats that result
}

// SettledLimit is the effect on one limit of ending a reservation.
type SettledLimit struct {
	Limit    string // its name, or its text if it has none
	Returned int64  // units refunded; negative if units were charged beyond the reservation
}

// Settle replaces the estimates of a reservation with what was used, limit by limit, and releases its slots; see
// slidegate.Limiter.Settle. The policy must be the one that the reservation was made under, and must still have the
// charged limits, by name and shape.
func (g *Gate) Settle(ctx context.Context, policy string, r slidegate.Reservation, used ...slidegate.Used) (Settlement, error) {
	for _, u := range used {
		if err := checkCost(u.Cost); err != nil {
			return Settlement{}, err
		}
	}
	return g.end(ctx, policy, &r, func(l *slidegate.Limiter) (slidegate.Settlement, error) { return l.Settle(ctx, r, used...) })
}

// Cancel refunds all of a reservation. The policy must be the one that it was made under.
func (g *Gate) Cancel(ctx context.Context, policy string, r slidegate.Reservation) (Settlement, error) {
	return g.end(ctx, policy, &r, func(l *slidegate.Limiter) (slidegate.Settlement, error) { return l.Cancel(ctx, r) })
}

// CancelUnsent cancels a reservation whose client left before it got it. It finishes even if ctx has ended, and tries again if
// the store fails.
func (g *Gate) CancelUnsent(ctx context.Context, r slidegate.Reservation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.FinishTime)
	defer cancel()
	store.Retry(ctx, func() (again bool) {
		_, err := g.Cancel(ctx, r.Namespace, r) // which is the name of its policy
		return err != nil && !errors.Is(err, slidegate.ErrReservation)
	})
}

// Release releases the slots of a reservation; its charges to other limits stay as reserved.
func (g *Gate) Release(ctx context.Context, policy string, r slidegate.Reservation) (Settlement, error) {
	return g.end(ctx, policy, &r, func(l *slidegate.Limiter) (slidegate.Settlement, error) { return l.Release(ctx, r) })
}

// end ends a reservation. The limiter is called with the reservation as the store knows it.
func (g *Gate) end(ctx context.Context, policy string, r *slidegate.Reservation,
	settle func(*slidegate.Limiter) (slidegate.Settlement, error)) (done Settlement, err error) {
	s, p, err := g.verified(ctx, policy, r)
	if err != nil || len(r.Charges) == 0 && r.ID != "" {
		return done, err
	}
	result, err := settle(s.set.Limiter(p.index))
	if err != nil {
		return done, err
	}
	done.Repeated = result.Repeated
	for i := range r.Charges {
		done.Limits = append(done.Limits, SettledLimit{Limit: s.labelOf(p, r.Charges[i].Limit), Returned: result.Returned[i]})
	}
	return done, nil
}

// Renew holds the slots of a reservation for another time to live. Decision.Allowed is false if one of them is no
// longer held, because it was not renewed in time or has been released.
func (g *Gate) Renew(ctx context.Context, policy string, r slidegate.Reservation) (v Verdict, err error) {
	s, p, err := g.verified(ctx, policy, &r)
	if err != nil {
		return v, err
	}
	v.Policy = p.Name
	if len(r.Charges) == 0 && r.ID != "" {
		v.Decision.Allowed, v.By = true, ByUnlimited
		return v, nil
	}
	v.Decision, err = s.set.Limiter(p.index).Renew(ctx, r)
	v.Refused = !v.Decision.Allowed
	return v, err
}

// verified finds the policy of a reservation sent by a client, and checks both. It removes the signature from the
// reservation's ID, since the store knows the ID without it.
func (g *Gate) verified(ctx context.Context, policy string, r *slidegate.Reservation) (*snapshot, *compiled, error) {
	s := g.current.Load()
	p, err := s.find(policy)
	if err != nil {
		return s, p, err
	}
	if err = g.verify(ctx, p.Name, r); err == nil {
		err = s.checkReservation(p, r)
	}
	return s, p, err
}

// labelOf returns the label of a charged limit that clients know: a reservation names the algorithm, and the file may
// not.
func (s *snapshot) labelOf(p *compiled, charged slidegate.Limit) string {
	if bound, err := slidegate.Bind(p.Name, charged); err == nil {
		for _, own := range s.set.BoundLimits(p.index) {
			if own.Prefix() == bound.Prefix() && *own.Rule() == *bound.Rule() {
				return own.Label()
			}
		}
	}
	return cmp.Or(charged.Name, charged.String())
}

// UsedInOrder converts costs without names, one per charge of a reservation and in the same order, to the argument of
// Settle. It returns an error for a single cost if the reservation has several charges: the cost would be charged to
// all limits, whatever they count.
func UsedInOrder(r *slidegate.Reservation, costs []int64) ([]slidegate.Used, error) {
	if len(r.Charges) == 0 { // nothing was charged, or Settle reports the error
		return nil, nil
	}
	if len(costs) != len(r.Charges) {
		var limits []string
		for i := range r.Charges {
			limit := &r.Charges[i].Limit
			limits = append(limits, strconv.Quote(cmp.Or(limit.Name, limit.String())))
		}
		return nil, fmt.Errorf("%w: %d costs for %d charges (%s); give the costs by limit",
			slidegate.ErrReservation, len(costs), len(r.Charges), strings.Join(limits, ", "))
	}
	used := make([]slidegate.Used, len(costs))
	for i, cost := range costs {
		used[i] = slidegate.Used{Limit: r.Charges[i].Limit.String(), Key: string(r.Charges[i].Key), Cost: cost}
	}
	return used, nil
}

// checkReservation rejects charges to limits that the policy does not have: a reservation comes from a client, which
// could otherwise make the store keep state for limits that it invents.
func (s *snapshot) checkReservation(p *compiled, r *slidegate.Reservation) error {
	if r.Namespace != p.Name {
		return fmt.Errorf("gate: %w: it was made under the policy %q, not %q; name the policy that it was made under",
			slidegate.ErrReservation, r.Namespace, p.Name)
	}
	known := map[string]bool{}
	for _, b := range s.set.BoundLimits(p.index) {
		known[b.Prefix()] = true
	}
	for i := range r.Charges {
		b, err := slidegate.Bind(p.Name, r.Charges[i].Limit)
		if err != nil {
			return err
		}
		if !known[b.Prefix()] {
			return fmt.Errorf("%w: policy %s has no limit like %s, or no longer has it", slidegate.ErrReservation, p.Name, r.Charges[i].Limit)
		}
	}
	return nil
}
