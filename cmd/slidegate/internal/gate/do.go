package gate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// Errors about a Request are texts for the client that sent it, so they do not begin with the name of this package.
var (
	// ErrPolicy is wrapped by the error of a Request that names an unknown policy.
	ErrPolicy = errors.New("unknown policy")
	// ErrNoPolicy is wrapped by the error of a Request that names no policy, where there are several and none is the default.
	ErrNoPolicy = errors.New("no policy is named")
	// ErrKey is wrapped by the error of a Request with an invalid key.
	ErrKey = errors.New("invalid key")
	// ErrID is wrapped by the error of a Request with an invalid ID, or with one for an operation that takes none.
	ErrID = errors.New("invalid id")
	// ErrSlots is wrapped by the error of a Request that would take slots without a way to release them.
	ErrSlots = policy.ErrSlots
	// ErrNoSlots is wrapped by the error of a Request to hold slots under a policy without an in-flight limit.
	ErrNoSlots = errors.New("no in-flight limit")
	// ErrClosed is the error for a decision that is Closed.
	ErrClosed = errors.New("the store could not answer, and the failure mode is closed; try again later")
)

// Request is a request to a Gate: may this key take this many units under this policy?
type Request struct {
	Policy   string     // "" means the default policy
	Key      string     // the client that is limited
	Address  netip.Addr // the client's address, if known, for allow and block lists
	Cost     int64      // units; 0 is a peek
	Listener Listener   // the listener that received it
	// Plan is the value that selects the plan, for policies with plans that are selected by a field of the request;
	// empty means none.
	Plan string
	// ID makes Allow, Reserve and Acquire calls that count once; see slidegate.Limiter.Once. What such a call took is not cancelled if its
	// client leaves, because the client sends it again. For a Cancel without a Reservation, it is the ID of the call, and Key and Plan
	// are those of the call. Empty means none.
	ID string
	// Wait replaces the policy's wait for Allow, Reserve and Acquire; 0 leaves it, and a negative one means that the request does not wait.
	Wait time.Duration
	// Reservation is where Reserve and Acquire put what they took, and what Renew, Release, Settle and Cancel are about. The
	// other operations ignore it, and these four ignore Key and Cost.
	Reservation *slidegate.Reservation
	// Used is what was used, limit by limit, for Settle.
	Used []slidegate.Used
	// Why is the reason of a Reset, and Who says who makes it, for the log of rulings.
	Why, Who string
}

// Op is an operation of Gate.Do.
type Op uint8

// The operations. A
// key that is on a list or has no limit is charged and refunded nothing.
const (
	// Allow takes the cost, all or nothing.
	Allow Op = iota
	// AllowUpTo takes as much of the cost as the limits admit now, at least one unit; Decision.Granted is the amount.
	AllowUpTo
	// Peek returns what Allow would return. It charges nothing and is not counted as a decision.
	Peek
	// Charge charges the cost, which must be at least 1, without a check and even beyond the quota.
	Charge
	// Refund returns the cost to the key, the oldest live units first; Decision.Granted is the amount.
	Refund
	// Reset deletes what the key has used of the limits that apply to it now, even if the key is on a list.
	Reset
	// Reserve takes an estimate, to be settled when the actual cost is known, and slots of in-flight limits. If nothing was
	// charged (an allow list, no limit, or a policy in shadow mode that would have refused), the reservation has no charges,
	// and settling it does nothing; if the request was refused, it is the zero value. What is taken for a client that leaves
	// before Do returns is cancelled; if the client does not get the reservation later, call CancelUnsent.
	Reserve
	// Acquire is Reserve for a policy with an in-flight limit. The caller renews the reservation and releases or settles it;
	// a slot that is neither renewed nor released is free again after its time to live. For any other policy the error wraps
	// ErrNoSlots, since callers would believe that they hold a slot.
	Acquire
	// Renew holds the slots and the units of a reservation for another time to live. Decision.Allowed is false if some of them are no
	// longer held, because they were not renewed in time or have been released, and RetryAfter is then slidegate.Never.
	Renew
	// Release releases the slots of a reservation; its charges to other limits stay as reserved.
	Release
	// Settle replaces the estimates of a reservation with what was used, and releases its slots; see
	// slidegate.Limiter.Settle.
	Settle
	// Cancel refunds all of a reservation, or of the call with an ID; a call that has not arrived yet is then refused.
	Cancel
)

// Closed reports whether nothing was counted: the store did not answer, and the failure mode closed refused. That is not the
// client's fault, and must not look like an exhausted quota. ErrClosed is the error to return.
func Closed(d *policy.Decision) bool { return d.Decision.Flags&rule.FallbackClosed != 0 && !d.Shadow }

// Do carries out an operation. In the decision, Allowed is what the client gets: under a policy in shadow mode it is true, and
// RetryAfter 0, even if the limits refused; Refused reports whether the limits or the block list refused, in shadow mode too.
//
// For Release, Settle and Cancel, the decision has an answer for each charge of the reservation, in which Granted is how many
// units were refunded; it is negative if units were charged beyond the reservation. The flag Repeated means that the
// reservation had ended before: nothing changed, and the answers repeat what was done then.
//
// The error wraps ErrPolicy for an unknown policy, slidegate.ErrCost for an invalid cost and slidegate.ErrReservation for a
// reservation that the policy did not make; other errors are the store's.
func (g *Gate) Do(ctx context.Context, op Op, req Request) (d policy.Decision, err error) {
	switch op {
	case Reserve, Acquire:
		err = g.reserve(ctx, op, &req, &d)
	case Renew, Release, Settle, Cancel:
		err = g.end(ctx, op, &req, &d)
	default:
		err = g.decide(ctx, op, &req, &d)
	}
	return d, err
}

// engineOps has the engine's operation for each that needs no reservation.
var engineOps = [...]rule.Op{
	Allow: rule.Take, AllowUpTo: rule.TakeUpTo, Peek: rule.Peek, Charge: rule.Charge, Refund: rule.GiveBack, Reset: rule.Reset,
}

// decide has the engine decide.
func (g *Gate) decide(ctx context.Context, op Op, req *Request, d *policy.Decision) error {
	var granted int64 // what the client gets if the policy is in shadow mode
	switch {
	case req.ID != "" && op != Allow:
		return fmt.Errorf("%w: only allow, reserve and acquire can count once, and cancel can end such a call", ErrID)
	case op == Charge && req.Cost == 0:
		return fmt.Errorf("%w: must be 1 to %d, not 0", slidegate.ErrCost, int64(rule.MaxQuota))
	case op == Reset:
		req.Cost = 0
	}
	if op == Allow || op == AllowUpTo {
		granted = req.Cost
	}
	s := g.current.Load()
	var part engine.Part
	if err := s.fill(req, &part); err != nil {
		return err
	}
	began := g.begin()
	s.set.Decide(ctx, engineOps[op], &part, d)
	g.recordLatency(req.Listener, began, d.Waited)
	return forClient(d, granted)
}

// fill converts a request for the engine. Addresses in keys are normalized as they are for HTTP requests, so that an
// application that sends an address, a proxy that checks requests and an operator who resets a key all refer to the
// same counts.
func (s *snapshot) fill(req *Request, part *engine.Part) error {
	p, err := s.find(req.Policy)
	if err == nil {
		err = checkCost(req.Cost)
	}
	if err == nil {
		err = checkID(req.ID)
	}
	if err != nil {
		return err
	}
	part.Policy, part.Key, part.Address, part.Cost = p.index, p.Key.Canonical(req.Key, p.groups), req.Address, req.Cost
	if p.listed && !req.Address.IsValid() {
		part.Address = p.addressIn(req.Key)
	}
	if p.plan != nil {
		if plan, found := p.findPlan(req.Plan); found {
			part.Plan = policy.Named(plan.Name)
		}
	}
	part.ID, part.Wait = req.ID, req.Wait
	return nil
}

// MaxID is the most bytes that the ID of a call may have.
const MaxID = 128

// checkID rejects an ID that is too long, or that would be mistaken for a signed one.
func checkID(id string) error {
	if len(id) > MaxID || strings.Contains(id, signatureMark) {
		return fmt.Errorf("%w: must have at most %d bytes, and must not contain %q", ErrID, MaxID, signatureMark)
	}
	return nil
}

// checkCost rejects a cost that no limit accepts.
func checkCost(cost int64) error {
	if uint64(cost) > rule.MaxQuota {
		return fmt.Errorf("%w: must be 0 to %d, not %d; to give units back use Refund, Settle or Cancel",
			slidegate.ErrCost, int64(rule.MaxQuota), cost)
	}
	return nil
}

// forClient converts a decision of the engine to the decision for the client. Granted is the amount that the client gets if
// the policy is in shadow mode. The error is the reason why nothing could be decided; the listener chooses the response.
func forClient(d *policy.Decision, granted int64) error {
	if d.Err != nil {
		err := d.Err
		*d = policy.Decision{Policy: d.Policy}
		if errors.Is(err, ErrSlots) { // a configured limit is never ignored silently
			err = fmt.Errorf("%w (/v1/acquire and /v1/release); slidegate proxy holds slots itself", err)
		}
		return err
	}
	if d.Refused = !d.Decision.Allowed; d.Refused && d.Shadow {
		d.Decision.Allowed, d.Decision.RetryAfter, d.Decision.Granted = true, 0, granted
	}
	return nil
}

// AllowBatch is Allow for many requests in one call to the store, or in one call per failure mode if their policies have
// different ones. Requests that share a key are decided in order, each separately. All requests are decided by the same
// policies, even if a reload happens at the same time. AllowBatch fills decisions and errs, which must be at least as long
// as reqs.
func (g *Gate) AllowBatch(ctx context.Context, reqs []Request, decisions []policy.Decision, errs []error) {
	if len(decisions) < len(reqs) || len(errs) < len(reqs) {
		panic(fmt.Sprintf("gate: AllowBatch: %d requests with %d decisions and %d errs; both must be at least as long as the requests",
			len(reqs), len(decisions), len(errs)))
	}
	s := g.current.Load()
	pooled := g.batches.Get().(*[]engine.Part)
	parts := (*pooled)[:0]
	for i := range reqs {
		parts = append(parts, engine.Part{})
		if errs[i] = s.fill(&reqs[i], &parts[i]); errs[i] != nil {
			decisions[i], parts[i].Policy = policy.Decision{}, -1
		}
	}
	began := g.begin()
	s.set.DecideBatch(ctx, parts, decisions)
	for i := range reqs {
		if errs[i] == nil {
			g.recordLatency(reqs[i].Listener, began, 0)
			errs[i] = forClient(&decisions[i], reqs[i].Cost)
		}
	}
	clear(parts)
	*pooled = parts[:0]
	g.batches.Put(pooled)
}

// faults has the field of a Request that an error is about.
var faults = []struct {
	err   error
	field string
}{
	{ErrPolicy, "policy"}, {ErrNoPolicy, "policy"}, {ErrSlots, "policy"}, {ErrNoSlots, "policy"},
	{ErrKey, "key"}, {ErrID, "id"}, {slidegate.ErrCost, "cost"},
	{slidegate.ErrReservation, "reservation"}, {slidegate.ErrLimit, "reservation"}, {slidegate.ErrConflict, "reservation"},
}

// FieldOf returns the field of an invalid Request that the error of Do is about, or "" if the request was not invalid.
func FieldOf(err error) string {
	for _, fault := range faults {
		if errors.Is(err, fault.err) {
			return fault.field
		}
	}
	return ""
}
