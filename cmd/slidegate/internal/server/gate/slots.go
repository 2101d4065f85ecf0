package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

var (
	// ErrSlots is wrapped by the error of an ask that would take slots which nobody releases.
	ErrSlots = policy.ErrSlots
	// ErrNoSlots is wrapped by the error of an ask that wants to hold slots under a policy without an in-flight limit.
	ErrNoSlots = errors.New("no in-flight limit")
)

// unheld says in the error of an ask that would take slots which nobody releases what to do instead. A limit that is written is
// never passed over in silence.
func unheld(err error) error {
	return fmt.Errorf("gate: %w (/v1/acquire and /v1/release, or SG.ACQUIRE and SG.RELEASE); slidegate proxy holds it by itself", err)
}

// Acquire takes slots, and the ask's cost of the policy's other limits, all or nothing. What it returns is renewed and released,
// or settled; a slot that is neither is free again after its time to live. It is Reserve for a policy with an in-flight limit,
// and an ErrNoSlots for others: their callers would believe to hold something.
func (g *Gate) Acquire(ctx context.Context, ask Ask) (res slidegate.Reservation, v Verdict, err error) {
	s := g.now.Load()
	p, err := s.find(ask.Policy)
	if err != nil {
		return res, v, err
	}
	if !p.slots {
		return res, v, fmt.Errorf("gate: %w: the policy %s has none to hold; ask with allow or reserve, or add a limit such as 50 in-flight ttl=30s",
			ErrNoSlots, p.Name)
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

// Untried returns the names of the policies whose candidate has an in-flight limit, in the order of the file. Only HoldRequest asks such
// a candidate.
func (g *Gate) Untried() (names []string) {
	for _, p := range g.now.Load().order {
		if CandidateHasSlots(&p.Policy) {
			names = append(names, p.Name)
		}
	}
	return names
}

// HasSlots reports whether a policy has an in-flight limit: its own, or one of an override or a plan.
func HasSlots(p *config.Policy) bool {
	return slices.ContainsFunc(p.Limits, isInFlight) ||
		slices.ContainsFunc(p.Overrides, func(o config.Override) bool { return slices.ContainsFunc(o.Limits, isInFlight) }) ||
		slices.ContainsFunc(p.Plans, func(plan config.Plan) bool { return slices.ContainsFunc(plan.Limits, isInFlight) })
}

// CandidateHasSlots reports whether the candidate of a policy has an in-flight limit.
func CandidateHasSlots(p *config.Policy) bool { return slices.ContainsFunc(p.Candidate, isInFlight) }

func isInFlight(l slidegate.Limit) bool { return l.Algorithm == slidegate.InFlight }

// Hold is what an admitted request holds while it runs. The zero value holds nothing.
type Hold struct{ request *policy.Request }

// Release gives back what is held, once the request has run; it must be called once. Where the store is reached over a network it
// does not wait for that. Failed is called if it could not be done, and the slots end by themselves then.
func (h *Hold) Release(ctx context.Context, failed func(error)) {
	if h.request != nil {
		h.request.Finish(ctx, nil, failed)
		h.request = nil
	}
}

// HoldRequest is CheckRequest for a listener in which requests run: it takes the slots of in-flight limits too, and renews them
// until they are released. Report is called with what goes wrong meanwhile, on another goroutine.
func (g *Gate) HoldRequest(ctx context.Context, r *http.Request, report func(error)) (v Verdict, held Hold, err error) {
	s := g.now.Load()
	var room [8]*compiled
	facing := s.facing(room[:0], r)
	began := g.begin()
	defer func() {
		for _, p := range facing {
			p.took(Proxy, began)
		}
	}()
	if !slices.ContainsFunc(facing, func(p *compiled) bool { return p.slots || p.tried }) {
		v, err = s.checkFacing(ctx, facing, r)
		return v, held, err
	}
	request := s.set.Begin()
	request.Slots = policy.SlotsHeld
	for _, p := range facing {
		request.Add(s.part(p, r))
	}
	request.Decide(ctx, rule.Take, &v)
	admitted := !v.Refused && v.Err == nil && request.Held()
	if err = s.finishFacing(&v, r); err != nil || !admitted {
		request.End() // which releases what was taken
		return v, held, err
	}
	request.Keep(ctx, func(lost policy.Verdict) { report(lost.Err) })
	return v, Hold{request}, nil
}

// Drain waits until all that Hold.Release has begun is done, or ctx ends.
func (g *Gate) Drain(ctx context.Context) error { return g.now.Load().set.Drain(ctx) }
