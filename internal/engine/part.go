package engine

import (
	"net/netip"
	"time"

	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// Part is one policy's part of a request.
type Part struct {
	Policy  int        // its index in the policies passed to New
	Key     string     // the client that is limited
	Address netip.Addr // the client's address, if known, for allow and block lists
	// Cost is how many units are taken. With 0 nothing is charged, but the request is refused as if it cost one unit: it
	// checks whether a unit is left, for those who charge otherwise. A negative cost counts as 1, and one above
	// rule.MaxQuota as rule.MaxQuota: as an error it could admit a request that must be refused.
	Cost int64
	Plan policy.Plan
	// Hold keeps what a Transaction takes, for Settle. A Cost of 0 then means that everything is charged afterwards. A
	// Transaction with SlotsHeld takes one unit for it until Settle, so that concurrent requests do not all get the last one.
	Hold bool
	// ID makes it a call that counts once, under an ID that its caller chose: if it is decided again with the same ID and key, nothing is
	// charged, and the decision is the first one, with the flag rule.Repeated. It is for rule.Take; see slidegate.Limiter.Once. Empty means
	// that each call counts.
	ID string
	// Wait replaces the policy's Wait for this request; 0 leaves it, and a negative one means that the request does not wait.
	Wait time.Duration
	// Method and Path are of the HTTP request, for Spec.Count; empty if there is none.
	Method, Path string
	// Err is why the application could not say who the client is, or what its plan is. The part is then not decided: it
	// refuses the request, whatever the failure mode is, since the limits of another client or plan would be wrong. The
	// decision has Err, and the flag rule.FallbackClosed.
	Err error

	slots bool // it takes a slot, whatever its cost
	holds bool // it holds units of a limit with Hold
	later bool // everything is charged afterwards, by its Transaction, which takes one unit until then
}

// usesOwnLimits reports whether the limits that the policy has for the key apply to the part, and it needs nothing else.
func (p *Part) usesOwnLimits() bool {
	return p.Plan.IsZero() && p.Err == nil && p.ID == "" && p.Wait <= 0
}

// peeks reports whether the part takes nothing, and only checks whether one unit is left.
func (p *Part) peeks() bool { return p.Cost == 0 && !p.Hold && !p.slots }

// op returns the operation that decides the part on its own.
func (p *Part) op(op rule.Op) rule.Op {
	if counts(op) && p.peeks() {
		return rule.Peek
	}
	return op
}

// costOf returns the cost of the part in an op. A peek at nothing would be refused only where more than the quota is used.
func (p *Part) costOf(op rule.Op) int64 {
	if op == rule.Peek {
		return max(p.cost(), 1)
	}
	return p.cost()
}

// cost returns the cost, clamped to the range that limits accept.
func (p *Part) cost() int64 {
	if p.Cost < 0 {
		return 1
	}
	return min(p.Cost, rule.MaxQuota)
}

// counts reports whether an op makes a decision.
func counts(op rule.Op) bool { return op == rule.Take || op == rule.TakeUpTo }

// partError is the Err of a Part.
type partError struct{ error }

// Unwrap returns the application's error.
func (e *partError) Unwrap() error { return e.error }

// Slots defines who releases the slots that a Transaction takes from in-flight limits.
type Slots uint8

// Values of Slots.
const (
	// SlotsNone: nothing does, because the request is decided here and runs elsewhere. Taking from an in-flight limit
	// is a mistake whose Err wraps policy.ErrSlots.
	SlotsNone Slots = iota
	// SlotsHeld: the Transaction, which holds them while the caller's work lasts, and units of limits with Hold too, as the other values
	// but SlotsNone do. After an admission for which Held is true,
	// the caller calls RenewSlots, which renews them, and Finish when the work has ended. Shadow policies
	// hold slots too. It may also be set where there are no in-flight limits.
	SlotsHeld
	// SlotsReserved: the owner of the Reservation, by its limiter's Renew and Release.
	SlotsReserved
)
