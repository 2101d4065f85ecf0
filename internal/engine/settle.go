package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/rule"
)

// Reservation returns what an admitted request took, to be settled by the Limiter of its policy when the actual cost is known.
// It has no charges if the store could not decide. A reservation is settled in one namespace, so it is an error if policies of
// a Set made by NewOver decided together.
func (t *Transaction) Reservation() (slidegate.Reservation, error) {
	live := &t.plan.batch.requests[0]
	t.reservationID()
	held := slidegate.Reservation{Version: adapter.ReservationVersion, ID: t.held.id, Group: t.Group, Charges: []slidegate.ReservedCharge{}}
	held.Namespace = live.Charges[0].Limit.Namespace()
	if live.Err != nil {
		return held, nil
	}
	for i, charge := range live.Charges {
		if charge.Limit.Namespace() != held.Namespace {
			return slidegate.Reservation{}, fmt.Errorf("policy: %w: a reservation over several namespaces; reserve under each policy separately",
				slidegate.ErrUnsupported)
		}
		at, mark := answering.Unmark(live.Answers[i].At)
		held.Charges = append(held.Charges, slidegate.ReservedCharge{
			Limit: adapter.Unbind(charge.Limit), Key: []byte(charge.Key), Cost: live.Answers[i].Granted, At: at, By: mark + 1,
		})
	}
	return held, nil
}

// Settle replaces the cost of an admitted request's parts with Hold by the actual cost: an excess is returned, and a shortfall
// is charged, beyond the quota if necessary; units that were held are charged. Actual is called once for each of these parts that took units, with the index of
// the policy and the number of units. That includes parts of shadow policies.
// The client may have left, and its usage still counts: Settle works after ctx has ended. Slots stay held: Finish releases
// them, and must not be called before settled, which Settle calls once with the result. It does so before it returns, unless
// the outcome is unknown: then it tries again a few times, and calls settled on another goroutine. An error may mean that
// only some parts were settled; those are not settled again by another call.
func (t *Transaction) Settle(ctx context.Context, actual func(policy int, cost int64) int64, settled func(error)) {
	if !t.Held() {
		settled(fmt.Errorf("policy: %w: nothing was held", slidegate.ErrReservation))
		return
	}
	if err := t.collectActual(actual); err != nil {
		settled(err)
		return
	}
	t.settle(ctx, onlyUnits, true, settled)
}

// collectActual sets the actual cost of each part. A part whose actual cost is invalid keeps what it took.
func (t *Transaction) collectActual(actual func(policy int, cost int64) int64) (err error) {
	for i := range t.held.took {
		one := &t.held.took[i]
		it := &t.parts[one.part]
		if it.settled || one.slot || one.done || one.doubtful {
			continue
		}
		cost := min(actual(it.Policy, min(one.Cost, it.cost())), rule.MaxQuota) // a log may have taken one unit for a part that costs nothing
		if cost < 0 {
			err = fmt.Errorf("policy: %w: the actual cost must not be negative, got %d", slidegate.ErrCost, cost)
			cost = one.Cost
		}
		it.actual, it.settled = cost, true
	}
	return err
}

// What a call of settle covers.
const (
	everything = false
	onlyUnits  = true
)

// settle sends what is owed, and calls settled with the result. The first attempt is made now or, like further ones, on
// another goroutine.
func (t *Transaction) settle(ctx context.Context, units, now bool, settled func(error)) {
	var err error
	if now {
		again := false
		if again, err = t.settleOnce(ctx, units); !again {
			settled(err)
			return
		}
	}
	ended := t.set.releases.begin(t.heldKeys())
	go func() {
		defer ended()
		if !now {
			t.stopRenewals()
		}
		begun, wait := time.Now(), now
		detach.Retry(context.WithoutCancel(ctx), func() (again bool) {
			if wait { // the first attempt has failed already
				wait = false
				return true
			}
			if time.Since(begun) > t.longestMemory() {
				return false
			}
			again, err = t.settleOnce(ctx, units)
			return again
		})
		settled(err)
	}()
}

// longestMemory returns how long the slots are held, and a settlement is remembered: after that, a repetition would release
// nothing, and could charge twice.
func (t *Transaction) longestMemory() (longest time.Duration) {
	for i := range t.held.took {
		one := &t.held.took[i]
		longest = max(longest, one.Limit.Rule().Memory().Duration())
		if one.slot {
			longest = max(longest, one.Limit.Rule().Window.Duration())
		}
	}
	return longest
}

// heldKeys returns the keys of what is not settled yet.
func (t *Transaction) heldKeys() (keys []string) {
	for i := range t.held.took {
		if one := &t.held.took[i]; !one.done && !slices.Contains(keys, one.Key) {
			keys = append(keys, one.Key)
		}
	}
	return keys
}

// settleOnce sends what is owed. It reports whether another attempt makes sense.
func (t *Transaction) settleOnce(ctx context.Context, units bool) (again bool, err error) {
	if !t.collectOwed(units) {
		return false, nil
	}
	ctx, cancel := detach.Context(ctx, t.set.traits)
	defer cancel()
	t.held.owed.apply(ctx, t.Group, t.reservationID(), t.set.store)
	for i := range t.held.took {
		one := &t.held.took[i]
		if one.owed < 0 || one.done {
			continue
		}
		result, answer := t.held.owed.at(one.owed)
		switch {
		case result.Err != nil:
			if !one.doubtful { // otherwise there may be nothing to release
				err = result.Err
			}
			again = again || !failure.IsMistake(result.Err)
			continue
		case answer.Flags&rule.Unsettled != 0:
			err = errors.Join(err, fmt.Errorf("policy: %w: nothing was returned or charged for %q", slidegate.ErrUnsettled, one.Limit.Label()))
		}
		one.done = true
	}
	return again, err
}

// collectOwed collects the batch that settles what is not yet settled, with one request for each request to the store that took
// something. It reports whether there is anything to settle.
func (t *Transaction) collectOwed(units bool) bool {
	if t.held.keeper != nil {
		t.held.keeper.mu.Lock()
		defer t.held.keeper.mu.Unlock()
	}
	for i := range t.held.took {
		t.held.took[i].owed = -1
	}
	t.held.owed.reset()
	owes := func(one *heldCharge) bool {
		it := &t.parts[one.part]
		switch {
		case one.done:
			return false
		case one.slot, one.hold && !it.settled:
			return !units
		}
		return it.settled && (one.hold || it.actual != one.Cost)
	}
	t.eachRequest(owes, func(all []heldCharge) {
		t.held.owed.begin(rule.Settle)
		for i := range all {
			one := &all[i]
			if !owes(one) {
				continue
			}
			charge := one.Charge
			switch it := &t.parts[one.part]; {
			case one.slot, one.doubtful:
			case it.settled:
				charge.Used = it.actual
			default:
				charge.Used = one.Cost
			}
			one.owed = t.held.owed.add(charge)
		}
	})
	return len(t.held.owed.requests) > 0
}

// Finish ends an admitted request whose work has ended: it settles what it took, as Settle does, releases its slots and
// recycles its memory, as End does. Held units of parts without Hold are charged as they were taken. Actual may be nil if no part has Hold. Failed is called with an error, if there is
// one; it may be nil.
//
// Where slots are released in a store with round trips, Finish does not wait for that: failed may be called later, on
// another goroutine. Waiting would delay the client's response, the last part of which is sent when the handler has
// returned. Nothing is lost by that: Drain waits for the releases under way when the program ends, and a request that
// finds no slot waits for those of its key that this process is about to release. Without slots, or with a store in this
// process, everything is done when Finish returns, unless the store fails: where the outcome is unknown, Finish sends a
// settlement or a release again a few times, on another goroutine, as long as the store can tell that it is a repetition.
func (t *Transaction) Finish(ctx context.Context, actual func(policy int, cost int64) int64, failed func(error)) {
	var err error
	defer func() { // also if actual panics
		now := !t.holdsSlots() || t.set.traits.RoundTrips == 0
		if now {
			t.stopRenewals()
		}
		t.settle(ctx, everything, now, func(unsettled error) {
			t.recycle()
			if err = errors.Join(err, unsettled); err != nil && failed != nil {
				failed(err)
			}
		})
	}()
	if actual != nil {
		err = t.collectActual(actual)
	}
}
