package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
)

// ErrSlots is wrapped by the error of an ask that would take slots which nobody releases, or that wants to hold slots where there
// are none.
var ErrSlots = errors.New("in-flight limit")

// Acquire takes slots, and the ask's cost of the policy's other limits, all or nothing. What it returns is renewed and released,
// or settled; a slot that is neither is free again after its time to live. It is Reserve for a policy with an in-flight limit,
// and an ErrSlots for others: the caller believes to hold something.
func (g *Gate) Acquire(ctx context.Context, ask Ask) (res slidegate.Reservation, v Verdict, err error) {
	s := g.now.Load()
	p, err := s.find(ask.Policy)
	if err != nil {
		return res, v, err
	}
	if !p.slots {
		return res, v, fmt.Errorf("gate: %w: the policy %s has none, so there is nothing to hold; reserve or allow instead, or add a limit "+
			"such as 50 in-flight ttl=30s", ErrSlots, p.Name)
	}
	return g.Reserve(ctx, ask)
}

// TimeToLive returns how long a reservation holds its slots unless it is renewed: the shortest time of them. It is 0 if there are
// none.
func TimeToLive(r *slidegate.Reservation) (shortest time.Duration) {
	for i := range r.Charges {
		limit := &r.Charges[i].Limit
		if limit.Algorithm == slidegate.InFlight && (shortest == 0 || limit.Window < shortest) {
			shortest = limit.Window
		}
	}
	return shortest
}

// Holding returns the names of the policies that have an in-flight limit, in the order of the file.
func (g *Gate) Holding() (names []string) {
	for _, p := range g.now.Load().order {
		if p.slots {
			names = append(names, p.Name)
		}
	}
	return names
}

// hasSlots reports whether a policy has an in-flight limit: its own, or one of an override.
func hasSlots(p *config.Policy) bool {
	inFlight := func(l slidegate.Limit) bool { return l.Algorithm == slidegate.InFlight }
	return slices.ContainsFunc(p.Limits, inFlight) ||
		slices.ContainsFunc(p.Overrides, func(o config.Override) bool { return slices.ContainsFunc(o.Limits, inFlight) })
}

// unheld returns the error of an ask that takes and does not hold, if its key faces an in-flight limit. A limit that is written is
// never passed over in silence.
func (s *snapshot) unheld(part *policy.Part) error {
	p := s.order[part.Policy]
	if !p.slots {
		return nil
	}
	if by, _, _ := s.set.Route(*part); by != ByLimits {
		return nil
	}
	for _, limit := range p.faces(part.Key) {
		if limit.Algorithm == slidegate.InFlight {
			return fmt.Errorf("gate: %w: the policy %s has %q, and nobody would release the slot; acquire and release it "+
				"(/v1/acquire, SG.ACQUIRE), or put slidegate proxy in front, which holds it while a request runs", ErrSlots, p.Name, limit)
		}
	}
	return nil
}
