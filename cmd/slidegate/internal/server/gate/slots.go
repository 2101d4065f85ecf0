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
	// ErrSlots is wrapped by the error of a Request that would take slots without a way to release them.
	ErrSlots = policy.ErrSlots
	// ErrNoSlots is wrapped by the error of a Request to hold slots under a policy without an in-flight limit.
	ErrNoSlots = errors.New("no in-flight limit")
)

// explainUnheld adds advice to the error of a Request that would take slots without a way to release them. A configured
// limit is never ignored silently.
func explainUnheld(err error) error {
	return fmt.Errorf("%w (/v1/acquire and /v1/release, or SG.ACQUIRE and SG.RELEASE); slidegate proxy holds slots itself", err)
}

// Acquire takes slots, and the cost of the request from the policy's other limits, all or nothing. The caller renews
// the reservation and releases or settles it; a slot that is neither renewed nor released is free again after its
// time to live. Acquire is Reserve for a policy with an in-flight limit. For any other policy it returns an error
// that wraps ErrNoSlots, since callers would believe that they hold a slot.
func (g *Gate) Acquire(ctx context.Context, req Request) (res slidegate.Reservation, v Verdict, err error) {
	s := g.current.Load()
	p, err := s.find(req.Policy)
	if err != nil {
		return res, v, err
	}
	if !p.slots {
		return res, v, fmt.Errorf("%w: policy %s has no slots to hold; use allow or reserve, or add a limit such as 50 in-flight ttl=30s",
			ErrNoSlots, p.Name)
	}
	return g.Reserve(ctx, req)
}

// TimeToLive returns how long a reservation holds its slots unless it is renewed: the shortest time to live of its
// slots, or 0 if it has none.
func TimeToLive(r *slidegate.Reservation) (shortest time.Duration) {
	for i := range r.Charges {
		limit := &r.Charges[i].Limit
		if limit.Algorithm == slidegate.InFlight && (shortest == 0 || limit.Window < shortest) {
			shortest = limit.Window
		}
	}
	return shortest
}

// PoliciesWithSlots returns the names of the policies that have an in-flight limit, in the order of the file.
func (g *Gate) PoliciesWithSlots() (names []string) {
	for _, p := range g.current.Load().order {
		if p.slots {
			names = append(names, p.Name)
		}
	}
	return names
}

// UntriedCandidates returns the names of the policies whose candidate has an in-flight limit, in the order of the file. Only
// HoldRequest evaluates such a candidate.
func (g *Gate) UntriedCandidates() (names []string) {
	for _, p := range g.current.Load().order {
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

// Hold is the slots that an admitted request holds while it runs. The zero value holds nothing.
type Hold struct{ request *policy.Request }

// Release releases the slots after the request has run; call it once. If the store is reached over a network, Release
// does not wait for it. Failed is called if the release failed; the slots then expire.
func (h *Hold) Release(ctx context.Context, failed func(error)) {
	if h.request != nil {
		h.request.Finish(ctx, nil, failed)
		h.request = nil
	}
}

// HoldRequest is CheckRequest for a listener in which requests run: it also takes the slots of in-flight limits, and
// renews them until they are released. Report is called on another goroutine with errors of renewals.
func (g *Gate) HoldRequest(ctx context.Context, r *http.Request, report func(error)) (v Verdict, held Hold, err error) {
	s := g.current.Load()
	var buf [8]*compiled
	matching := g.matching(s, buf[:0], Proxy, r)
	began := g.begin()
	defer func() {
		for _, p := range matching {
			p.recordLatency(Proxy, began)
		}
	}()
	if !slices.ContainsFunc(matching, func(p *compiled) bool { return p.slots || p.candidateSlots }) {
		v, err = s.checkMatching(ctx, matching, r)
		return v, held, err
	}
	request := s.set.Begin()
	request.Slots = policy.SlotsHeld
	for _, p := range matching {
		request.Add(s.part(p, r))
	}
	request.Decide(ctx, rule.Take, &v)
	admitted := !v.Refused && v.Err == nil && request.Held()
	if err = s.finishMatching(&v, r); err != nil || !admitted {
		request.End() // releases what was taken
		return v, held, err
	}
	request.RenewSlots(ctx, func(lost policy.Verdict) { report(lost.Err) })
	return v, Hold{request}, nil
}

// Drain waits until all releases begun by Hold.Release are done, or ctx ends.
func (g *Gate) Drain(ctx context.Context) error { return g.current.Load().set.Drain(ctx) }
