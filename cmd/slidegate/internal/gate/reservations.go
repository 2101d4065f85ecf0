package gate

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// reserve does Reserve and Acquire.
func (g *Gate) reserve(ctx context.Context, op Op, req *Request, d *policy.Decision) error {
	s := g.current.Load()
	var part engine.Part
	if err := s.fill(req, &part); err != nil {
		return err
	}
	p := s.order[part.Policy]
	if op == Acquire && !p.slots {
		return fmt.Errorf("%w: policy %s has no slots to hold; use allow or reserve, or add a limit such as 50 in-flight ttl=30s",
			ErrNoSlots, p.Name)
	}
	request := s.set.Begin()
	defer request.End()
	part.Hold, request.Slots = true, engine.SlotsReserved
	request.Add(part)
	began := g.begin()
	request.Decide(ctx, rule.Take, d)
	g.recordLatency(req.Listener, began, d.Waited)
	taken := d.By == policy.ByLimits && d.Decision.Allowed
	if err := forClient(d, req.Cost); err != nil {
		return err
	}
	var res slidegate.Reservation
	var err error
	switch {
	case taken:
		res, err = request.Reservation()
	case d.Decision.Allowed:
		res = slidegate.Reservation{
			Version: adapter.ReservationVersion, ID: cmp.Or(req.ID, rand.Text()), Namespace: p.Name, Charges: []slidegate.ReservedCharge{},
		}
	}
	if ended := ctx.Err(); ended != nil && len(res.Charges) > 0 && req.ID == "" { // the client left meanwhile, and will never see it
		_, err = s.set.Limiter(part.Policy).Finish(ctx, res, ended)
		*d = policy.Decision{}
		return cmp.Or(err, ended)
	}
	g.sign(ctx, p.Name, &res)
	*req.Reservation = res
	return err
}

// end does Renew, Release, Settle and Cancel. The policy must be the one that the reservation was made under, and must still
// have the charged limits, by name and shape.
func (g *Gate) end(ctx context.Context, op Op, req *Request, d *policy.Decision) error {
	for _, used := range req.Used {
		if err := checkCost(used.Cost); err != nil {
			return err
		}
	}
	s := g.current.Load()
	if req.Reservation == nil {
		return s.cancelCall(ctx, req, d)
	}
	p, err := s.find(req.Policy)
	if err != nil {
		return err
	}
	r := *req.Reservation
	if err := g.verify(ctx, p.Name, &r); err != nil {
		return err
	}
	if err := s.checkReservation(p, &r); err != nil {
		return err
	}
	d.Policy = p.Name
	if len(r.Charges) == 0 && r.ID != "" { // nothing was charged
		d.Decision.Allowed, d.By = true, policy.ByUnlimited
		return nil
	}
	limiter := s.set.Limiter(p.index)
	var done slidegate.Settlement
	var answers []rule.Answer // to Settle only: nothing else charges more than was reserved
	switch op {
	case Renew:
		d.Decision, err = limiter.Renew(ctx, r)
		d.Refused = !d.Decision.Allowed
		return err
	case Release:
		done, err = limiter.Release(ctx, r)
	case Settle:
		done, err = adapter.Settle(ctx, limiter, r, req.Used, &answers)
	case Cancel:
		done, err = limiter.Cancel(ctx, r)
	}
	if err != nil {
		return err
	}
	d.Decision.Allowed = true
	if done.Repeated {
		d.Decision.Flags = rule.Repeated
	}
	for i := range r.Charges {
		if i < len(answers) && done.Returned[i] < 0 && len(p.Notify) > 0 {
			s.noteSettled(p, &r.Charges[i], answers[i])
		}
		d.Limits = append(d.Limits, s.labelled(p, r.Charges[i].Limit))
		d.Decision.Answers = append(d.Decision.Answers, rule.Answer{Allowed: true, Granted: done.Returned[i]})
	}
	return nil
}

// noteSettled notes the thresholds that were crossed by what a settlement charged in addition to the reservation.
func (s *snapshot) noteSettled(p *livePolicy, c *slidegate.ReservedCharge, answer rule.Answer) {
	if bound, err := adapter.Bind(p.Name, c.Limit); err == nil {
		s.set.NoteSettled(p.index, bound, string(c.Key), answer)
	}
}

// cancelCall cancels the call with the ID of a request.
func (s *snapshot) cancelCall(ctx context.Context, req *Request, d *policy.Decision) error {
	if req.ID == "" {
		return fmt.Errorf("%w: is missing; give the id of the call, or its reservation", ErrID)
	}
	var part engine.Part
	if err := s.fill(req, &part); err != nil {
		return err
	}
	done, limits, err := s.set.CancelCall(ctx, part)
	if err != nil {
		return err
	}
	d.Policy, d.Decision.Allowed, d.Limits = s.order[part.Policy].Name, true, limits
	if done.Repeated {
		d.Decision.Flags = rule.Repeated
	}
	for _, returned := range done.Returned {
		d.Decision.Answers = append(d.Decision.Answers, rule.Answer{Allowed: true, Granted: returned})
	}
	return nil
}

// CancelUnsent cancels a reservation whose client left before it got it. It finishes even if ctx has ended, and tries again if
// the store fails.
func (g *Gate) CancelUnsent(ctx context.Context, r slidegate.Reservation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detach.MaxTime)
	defer cancel()
	detach.Retry(ctx, func() (again bool) {
		_, err := g.Do(ctx, Cancel, Request{Policy: r.Namespace, Reservation: &r}) // the namespace is the name of its policy
		return err != nil && !errors.Is(err, slidegate.ErrReservation)
	})
}

// labelled returns a charged limit under the label that clients know: a reservation names the algorithm, and the file may
// not.
func (s *snapshot) labelled(p *livePolicy, charged slidegate.Limit) slidegate.Limit {
	if bound, err := adapter.Bind(p.Name, charged); err == nil {
		for _, own := range s.set.BoundLimits(p.index) {
			if own.Prefix() == bound.Prefix() && *own.Rule() == *bound.Rule() {
				charged.Name = own.Label()
			}
		}
	}
	return charged
}

// checkReservation rejects charges to limits that the policy does not have: a reservation comes from a client, which
// could otherwise make the store keep state for limits that it invents.
func (s *snapshot) checkReservation(p *livePolicy, r *slidegate.Reservation) error {
	if r.Namespace != p.Name {
		return fmt.Errorf("%w: it was made under the policy %q, not %q; name the policy that it was made under",
			slidegate.ErrReservation, r.Namespace, p.Name)
	}
	known := map[string]bool{}
	for _, b := range s.set.BoundLimits(p.index) {
		known[b.Prefix()] = true
	}
	for i := range r.Charges {
		b, err := adapter.Bind(p.Name, r.Charges[i].Limit)
		if err != nil {
			return err
		}
		if !known[b.Prefix()] {
			return fmt.Errorf("%w: policy %s has no limit like %s, or no longer has it", slidegate.ErrReservation, p.Name, r.Charges[i].Limit)
		}
	}
	return nil
}

// UsedInOrder converts costs without names, one per charge of a reservation and in the same order, to Request.Used. It
// returns an error for a single cost if the reservation has several charges: the cost would be charged to all limits,
// whatever they count.
func UsedInOrder(r *slidegate.Reservation, costs []int64) ([]slidegate.Used, error) {
	if len(r.Charges) == 0 { // nothing was charged, or Settle reports the error
		return nil, nil
	}
	if len(costs) != len(r.Charges) {
		var limits []string
		for i := range r.Charges {
			limits = append(limits, strconv.Quote(Label(&r.Charges[i].Limit)))
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

// Label returns the label of a limit in decisions: its name, or its text if it has none.
func Label(limit *slidegate.Limit) string {
	if limit.Name != "" {
		return limit.Name
	}
	return limit.String()
}

// TimeToLive returns how long a reservation holds its slots and units unless it is renewed: the shortest of their times, or 0 if it
// holds none.
func TimeToLive(r *slidegate.Reservation) (shortest time.Duration) {
	for i := range r.Charges {
		lasts := r.Charges[i].Limit.Hold
		if isInFlight(r.Charges[i].Limit) {
			lasts = r.Charges[i].Limit.Window
		}
		if lasts > 0 && (shortest == 0 || lasts < shortest) {
			shortest = lasts
		}
	}
	return shortest
}

// signatureMark separates the ID of a reservation from its signature, and identifies the format that was signed.
const signatureMark = ".v1."

var otherFormat = regexp.MustCompile(`\.v(\d{1,9})\.`)

// sign appends a signature to the ID of a reservation, unless the reservation is the zero value or there is no key.
func (g *Gate) sign(ctx context.Context, policy string, r *slidegate.Reservation) {
	if g.opts.Key != nil && r.ID != "" {
		r.ID += signatureMark + g.opts.Key.sign(ctx, signedText(policy, *r))
	}
}

// verify rejects a reservation that was not made for the policy, or that was modified since. It removes the signature from
// the ID, since the store knows the ID without it.
func (g *Gate) verify(ctx context.Context, policy string, r *slidegate.Reservation) error {
	if g.opts.Key == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // settling continues after the client has disconnected
	id, signature, _ := strings.Cut(r.ID, signatureMark)
	if format := otherFormat.FindStringSubmatch(r.ID); signature == "" && format != nil {
		return fmt.Errorf("%w: it was not made by this service: it was signed in format %s, and this version reads format 1; "+
			"send it to the version of Slidegate that made it", slidegate.ErrReservation, format[1])
	}
	unsigned := *r
	unsigned.ID = id
	if id == "" || signature == "" || !g.opts.Key.verify(ctx, signedText(policy, unsigned), signature) {
		return fmt.Errorf("%w: it was not made by this service for policy %s, or was modified since; "+
			"send the reservation unchanged", slidegate.ErrReservation, policy)
	}
	r.ID = id
	return nil
}

// signedText returns the text to sign: the name of the policy and the whole reservation.
func signedText(policy string, r slidegate.Reservation) []byte {
	if r.Charges == nil {
		r.Charges = []slidegate.ReservedCharge{} // some JSON readers do not distinguish it from null
	}
	content, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot fail for strings, bytes and numbers
	}
	text := append([]byte(nil), "slidegate reservation"+signatureMark...)
	text = binary.AppendUvarint(text, uint64(len(policy)))
	text = append(text, policy...)
	return append(text, content...)
}
