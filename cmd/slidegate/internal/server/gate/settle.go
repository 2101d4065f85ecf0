package gate

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
)

// Settlement is what the end of a reservation did, as the client is told.
type Settlement struct {
	Limits   []SettledLimit // one per charge of the reservation, in their order
	Repeated bool           // the reservation had been settled before: nothing changed, and Limits are what was done then
}

// SettledLimit is what the end of a reservation did to one limit.
type SettledLimit struct {
	Limit string // its name, or its text if it has none
	Back  int64  // how many units were given back, or minus how many were charged beyond the reservation
}

// Settle replaces the estimates of a reservation by what was used, limit by limit, and releases its slots; see
// slidegate.Limiter.Settle. The policy must be the one that the reservation was made under, and still have the limits that were
// charged, by name and shape.
func (g *Gate) Settle(ctx context.Context, policy string, r slidegate.Reservation, used ...slidegate.Used) (Settlement, error) {
	for _, u := range used {
		if err := checkCost(u.Cost); err != nil {
			return Settlement{}, err
		}
	}
	return g.end(ctx, policy, &r, func(l *slidegate.Limiter) (slidegate.Settlement, error) { return l.Settle(ctx, r, used...) })
}

// Cancel gives all of a reservation back. The policy must be the one that it was made under.
func (g *Gate) Cancel(ctx context.Context, policy string, r slidegate.Reservation) (Settlement, error) {
	return g.end(ctx, policy, &r, func(l *slidegate.Limiter) (slidegate.Settlement, error) { return l.Cancel(ctx, r) })
}

// Release gives the slots of a reservation back; its other limits stay as they were reserved.
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
	said, err := settle(s.set.Limiter(p.place))
	if err != nil {
		return done, err
	}
	done.Repeated = said.Repeated
	for i := range r.Charges {
		done.Limits = append(done.Limits, SettledLimit{Limit: s.labelOf(p, r.Charges[i].Limit), Back: said.Back[i]})
	}
	return done, nil
}

// Renew holds the slots of a reservation for another time to live. Decision.Allowed is false if one of them is not held any
// more, because it was not renewed in time or has been released.
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
	v.Decision, err = s.set.Limiter(p.place).Renew(ctx, r)
	v.Refused = !v.Decision.Allowed
	return v, err
}

// verified finds the policy of a reservation that came back, and checks both. It takes the signature off the reservation's ID:
// the store knows it without.
func (g *Gate) verified(ctx context.Context, policy string, r *slidegate.Reservation) (*snapshot, *compiled, error) {
	s := g.now.Load()
	p, err := s.find(policy)
	if err != nil {
		return s, p, err
	}
	earlier, err := g.verify(ctx, p.Name, r)
	if err == nil {
		err = s.checkReservation(p, r, earlier)
	}
	return s, p, err
}

// labelOf returns what clients know a charged limit by: a reservation names the algorithm, and the file may not.
func (s *snapshot) labelOf(p *compiled, charged slidegate.Limit) string {
	if bound, err := slidegate.Bind(p.Name, charged); err == nil {
		for _, own := range s.set.Bound(p.place) {
			if own.Prefix() == bound.Prefix() && *own.Rule() == *bound.Rule() {
				return own.Label()
			}
		}
	}
	return cmp.Or(charged.Name, charged.String())
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
// otherwise have the store keep something for limits of its own making. One of the earlier format may have charged the sliding
// windows that the policy's sliding logs were then, as long as nobody named their algorithm.
func (s *snapshot) checkReservation(p *compiled, r *slidegate.Reservation, earlier bool) error {
	known := map[string]bool{}
	for _, b := range s.set.Bound(p.place) {
		known[b.Prefix()] = true
		if earlier {
			known[earlierPrefix(b)] = true
		}
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

// earlierPrefix returns the prefix that a limit had when a limit that named no algorithm was a sliding window, whatever its quota.
func earlierPrefix(b *store.Limit) string {
	limit := slidegate.Unbind(b)
	if limit.Algorithm != slidegate.SlidingLog {
		return b.Prefix()
	}
	limit.Algorithm = slidegate.SlidingWindow
	earlier, err := slidegate.Bind(b.Namespace(), limit)
	if err != nil {
		return b.Prefix()
	}
	return earlier.Prefix()
}
