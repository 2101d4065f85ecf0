package slidegate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/internal/line"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Claim is one limit that applies to a request: a limit, a key and a cost.
type Claim struct {
	Limit Limit
	Key   string
	// Cost is how many units the request takes; 0 means 1. To check without taking anything, use Claims.Peek. A request
	// takes one slot of an in-flight limit, so there it must be 0 or 1.
	Cost int64
}

// Claims is a request over any limits and keys, all or nothing. Limiter.For returns it; the zero value is not usable.
type Claims struct {
	limiter *Limiter
	group   string
	claims  []Claim
}

// For returns a request over limits given with the call, each with its own key and cost: a limit per user, one per tenant
// and a global budget, or a limit from the user's plan. The limiter's own limits do not apply. A limit of the same name and
// shape as one of them shares its counts, whatever their quotas are.
func (l *Limiter) For(claims ...Claim) Claims { return Claims{limiter: l, claims: claims} }

// InGroup sets the group of the claims. It is part of their address: the same key in another group has other counts. A
// store made of several nodes keeps a group on one of them, and there claims on several keys need a group.
func (c Claims) InGroup(group string) Claims {
	c.group = group
	return c
}

// Allow takes the claims' costs, all or none.
func (c Claims) Allow(ctx context.Context) (d Decision, err error) {
	if len(c.claims) == 1 && c.group == "" {
		if handled, err := c.limiter.allowClaim(ctx, &c.claims[0], &d); handled {
			return d, err
		}
	}
	return c.call().decide(ctx, rule.Take)
}

// allowClaim decides a single claim without a batch, if the store can.
func (l *Limiter) allowClaim(ctx context.Context, claim *Claim, d *Decision) (handled bool, err error) {
	bound, err := l.bound.bind(claim.Limit)
	if err != nil {
		return true, err
	}
	cost := cmp.Or(claim.Cost, 1)
	if l.taker == nil || bound.Rule().Algorithm == InFlight || uint64(cost) > rule.MaxQuota {
		return false, nil
	}
	if ctx == nil {
		return true, errNoContext
	}
	allowed, flags, remaining, after, resetAfter, at, err := l.taker.TakeSingle(ctx, bound, claim.Key, cost)
	if err == nil {
		d.fill(bound, allowed, flags, cost, remaining, after, resetAfter, at)
	}
	return true, err
}

// AllowUpTo takes as much of every claim's cost as all limits admit now, at least one unit, and the same amount for each
// claim.
func (c Claims) AllowUpTo(ctx context.Context) (Decision, error) {
	return c.call().decide(ctx, rule.TakeUpTo)
}

// Peek returns what Allow would return, and charges nothing.
func (c Claims) Peek(ctx context.Context) (Decision, error) { return c.call().decide(ctx, rule.Peek) }

// Wait waits until the claims' costs are admitted, and takes them; see Limiter.Wait.
func (c Claims) Wait(ctx context.Context) error { return c.call().wait(ctx) }

// Reserve takes the claims' costs as an estimate, and slots, to be settled when the actual costs are known; see Reservation.
func (c Claims) Reserve(ctx context.Context) (Reservation, Decision, error) {
	return c.call().reserve(ctx)
}

// ReserveWait is Reserve, but waits in line until the claims are admitted; see Limiter.Wait.
func (c Claims) ReserveWait(ctx context.Context) (Reservation, error) {
	return c.call().reserveWait(ctx)
}

// Charge charges the claims' costs without a check, even beyond the quotas; see Limiter.Charge.
func (c Claims) Charge(ctx context.Context) (Decision, error) {
	return c.call().decide(ctx, rule.Charge)
}

// Refund returns the claims' costs, the oldest live units first; see Limiter.Refund. Slots stay held if there are other claims.
func (c Claims) Refund(ctx context.Context) (Decision, error) { return c.call().refund(ctx) }

// Reset deletes what the claims' keys have used.
func (c Claims) Reset(ctx context.Context) error {
	_, err := c.call().decide(ctx, rule.Reset)
	return err
}

func (c Claims) call() *call {
	call := newCall(c.limiter, len(c.claims))
	call.batch[0].Group = c.group
	if len(c.claims) == 0 {
		call.fail(fmt.Errorf("slidegate: %w: For needs at least one claim", ErrLimit))
	}
	for _, claim := range c.claims {
		bound, err := c.limiter.bound.bind(claim.Limit)
		if err != nil {
			call.fail(err)
			continue
		}
		call.add(store.Charge{Limit: bound, Key: claim.Key, Cost: cmp.Or(claim.Cost, 1)})
	}
	return call
}

// call is one request to the store. Its memory is pooled, so that a request over several limits allocates only what it
// returns. The caller ends it with decide, wait or reserve.
type call struct {
	limiter *Limiter
	err     error           // the first error in the request
	batch   []store.Request // always of length 1
	charges []store.Charge
	answers []rule.Answer
	slots   bool  // whether one of the charges is on an in-flight limit
	indexes []int // for each charge that was added, its index in charges; equal addresses share a charge
}

var calls = sync.Pool{New: func() any { return &call{batch: make([]store.Request, 1)} }}

func newCall(l *Limiter, n int) *call {
	c := calls.Get().(*call)
	c.limiter = l
	c.charges = slices.Grow(c.charges[:0], n)
	c.indexes = c.indexes[:0]
	return c
}

// end returns the call's memory to the pool, with the caller's keys removed.
func (c *call) end() {
	clear(c.charges)
	c.batch[0] = store.Request{}
	c.limiter, c.err, c.slots = nil, nil, false
	calls.Put(c)
}

func (c *call) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// add adds a charge to the request. The costs of charges with the same address add up.
func (c *call) add(charge store.Charge) {
	if charge.Cost < 0 || charge.Cost > rule.MaxQuota {
		c.fail(fmt.Errorf("slidegate: %w: must be 0 to %d, not %d; to give units back use Refund, Settle or Cancel",
			ErrCost, int64(rule.MaxQuota), charge.Cost))
		return
	}
	for i := range c.charges {
		same := &c.charges[i]
		if same.Key != charge.Key || same.Limit.Prefix() != charge.Limit.Prefix() {
			continue
		}
		if same.At != charge.At {
			c.fail(fmt.Errorf("slidegate: %w: it holds units of one key charged at two times; settle them one at a time",
				ErrReservation))
		}
		if *same.Limit.Rule() != *charge.Limit.Rule() {
			c.fail(fmt.Errorf("slidegate: %w: %q and %q apply to the same key; give them different names",
				ErrConflict, unbind(same.Limit), unbind(charge.Limit)))
		}
		same.Cost = min(same.Cost+charge.Cost, rule.MaxQuota)
		same.Used = min(same.Used+charge.Used, rule.MaxQuota)
		c.indexes = append(c.indexes, i)
		return
	}
	c.indexes = append(c.indexes, len(c.charges))
	c.charges = append(c.charges, charge)
	c.slots = c.slots || isSlot(&charge)
}

func isSlot(charge *store.Charge) bool { return charge.Limit.Rule().Algorithm == InFlight }

// checkSlots rejects operations that in-flight limits do not support: a slot belongs to a reservation, which releases it,
// and a reservation holds one slot per key.
func (c *call) checkSlots(op rule.Op) error {
	switch op {
	case rule.TakeUpTo, rule.Charge:
		return errSlots()
	case rule.Take, rule.Peek:
		if op == rule.Take && c.batch[0].ID == 0 {
			return errSlots()
		}
		for i := range c.charges {
			if charge := &c.charges[i]; charge.Cost > 1 && isSlot(charge) {
				return fmt.Errorf("slidegate: %w: a request takes one slot of an in-flight limit, not %d; "+
					"acquire them one at a time", ErrCost, charge.Cost)
			}
		}
	}
	return nil
}

func errSlots() error {
	return fmt.Errorf("slidegate: %w: slots of an in-flight limit are held until they are released; "+
		"use Acquire or Reserve, and Release", ErrUnsupported)
}

// checkKeys rejects charges on several keys if the store decides one key at a time.
func (c *call) checkKeys() error {
	if !c.limiter.traits.OneKey || c.batch[0].Group != "" {
		return nil
	}
	for i := range c.charges {
		if c.charges[i].Key != c.charges[0].Key {
			return fmt.Errorf("slidegate: %w: the claims have different keys, and the %s store decides one key at a time; use InGroup, "+
				"which keeps all keys of a group together, or make one request per key", ErrUnsupported, c.limiter.traits.Name)
		}
	}
	return nil
}

// apply sends the request to the store once. The answers stay in c until end is called.
func (c *call) apply(ctx context.Context, op rule.Op) error {
	if err := c.check(ctx, op); err != nil {
		return err
	}
	c.answers = slices.Grow(c.answers[:0], len(c.charges))[:len(c.charges)]
	request := &c.batch[0]
	request.Op, request.Charges, request.Answers = op, c.charges, c.answers
	if op == rule.GiveBack || op == rule.Settle || op == rule.Reset {
		defer line.Returned(c.limiter.bound.scope, request.Group, c.charges)
	}
	switch {
	case op == rule.GiveBack || op == rule.Charge || op == rule.Settle:
		return c.finish(ctx)
	case op == rule.Take && request.ID != 0:
		cancelled, err := detach.Reserve(ctx, c.limiter.store, c.batch)
		line.ReturnedAfter(cancelled, c.limiter.bound.scope, request.Group, c.charges)
		return err
	}
	return c.limiter.store.Apply(ctx, c.batch)
}

// check returns an error if the request is invalid.
func (c *call) check(ctx context.Context, op rule.Op) error {
	if c.err != nil {
		return c.err
	}
	if ctx == nil {
		return errNoContext
	}
	if most := c.limiter.traits.MaxCharges; len(c.charges) > most {
		return fmt.Errorf("slidegate: %w: %d charges in one request; the %s store decides at most %d atomically",
			ErrUnsupported, len(c.charges), c.limiter.traits.Name, most)
	}
	if err := c.checkKeys(); err != nil {
		return err
	}
	if c.slots {
		if err := c.checkSlots(op); err != nil {
			return err
		}
	}
	if c.limiter.once != nil {
		return c.useID(op)
	}
	return nil
}

// finish sends a request that corrects what is charged. It is sent even if the caller has gone: what was used stays used.
func (c *call) finish(ctx context.Context) error {
	ctx, cancel := detach.Context(ctx, c.limiter.traits)
	defer cancel()
	return c.limiter.store.Apply(ctx, c.batch)
}

// decision returns the decision made by the last apply.
func (c *call) decision() Decision {
	var d Decision
	d.combine(c.charges, c.answers)
	d.Index = int32(slices.Index(c.indexes, int(d.Index)))
	if len(c.indexes) > 1 {
		d.Answers = make([]rule.Answer, len(c.indexes))
		for i, at := range c.indexes {
			d.Answers[i] = c.answers[at]
		}
	}
	return d
}

func (c *call) decide(ctx context.Context, op rule.Op) (Decision, error) {
	defer c.end()
	if err := c.apply(ctx, op); err != nil {
		return Decision{}, err
	}
	return c.decision(), nil
}
