package gate

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate"
)

// Settle replaces the estimates of a reservation by what was used, limit by limit; see slidegate.Limiter.Settle. The policy
// must be the one that the reservation was made under, and still have the limits that were charged, by name and shape.
func (g *Gate) Settle(ctx context.Context, policy string, r slidegate.Reservation, used ...slidegate.Used) error {
	for _, u := range used {
		if err := checkCost(u.Cost); err != nil {
			return err
		}
	}
	limiter, err := g.settler(ctx, policy, &r)
	if err != nil || limiter == nil {
		return err
	}
	_, err = limiter.Settle(ctx, r, used...)
	return err
}

// Cancel gives all of a reservation back. The policy must be the one that it was made under.
func (g *Gate) Cancel(ctx context.Context, policy string, r slidegate.Reservation) error {
	limiter, err := g.settler(ctx, policy, &r)
	if err != nil || limiter == nil {
		return err
	}
	_, err = limiter.Cancel(ctx, r)
	return err
}

// settler returns the limiter that settles a reservation, or nil if nothing was charged.
func (g *Gate) settler(ctx context.Context, policy string, r *slidegate.Reservation) (*slidegate.Limiter, error) {
	s := g.now.Load()
	p, err := s.find(policy)
	if err == nil {
		err = g.verify(ctx, p.Name, *r)
	}
	if err != nil || len(r.Charges) == 0 && r.ID != "" {
		return nil, err
	}
	if err := s.checkReservation(p, r); err != nil {
		return nil, err
	}
	return s.set.Limiter(p.place), nil
}

// UsedInOrder makes Settle's argument of costs without names, one for each charge of a reservation in their order. For
// clients that give one number it is an error if the reservation has several charges: the number would be charged to all
// limits, whatever they count.
func UsedInOrder(r *slidegate.Reservation, costs []int64) ([]slidegate.Used, error) {
	if len(r.Charges) == 0 { // nothing was charged, or Settle says what is wrong
		return nil, nil
	}
	if len(costs) != len(r.Charges) {
		var limits []string
		for i := range r.Charges {
			limit := &r.Charges[i].Limit
			limits = append(limits, strconv.Quote(cmp.Or(limit.Name, limit.String())))
		}
		return nil, fmt.Errorf("gate: %w: %d true costs for %d charges (%s); say what was used by limit",
			slidegate.ErrReservation, len(costs), len(r.Charges), strings.Join(limits, ", "))
	}
	used := make([]slidegate.Used, len(costs))
	for i, cost := range costs {
		used[i] = slidegate.Used{Limit: r.Charges[i].Limit.String(), Key: string(r.Charges[i].Key), Cost: cost}
	}
	return used, nil
}

// checkReservation refuses charges to limits that the policy does not have: a reservation comes from a client, which could
// otherwise have the store keep something for limits of its own making.
func (s *snapshot) checkReservation(p *compiled, r *slidegate.Reservation) error {
	known := map[string]bool{}
	for _, b := range s.set.Bound(p.place) {
		known[b.Prefix()] = true
	}
	for i := range r.Charges {
		b, err := slidegate.Bind(p.Name, r.Charges[i].Limit)
		if err != nil {
			return err
		}
		if !known[b.Prefix()] {
			return fmt.Errorf("gate: %w: the policy %s has no limit like %s (any more)", slidegate.ErrReservation, p.Name, r.Charges[i].Limit)
		}
	}
	return nil
}
