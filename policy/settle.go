package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// heldCharge is what a request took of one limit: units for a part with Hold, or a slot. Cost is what was granted, and At when.
type heldCharge struct {
	store.Charge
	part      int // the index of its part
	request   int // the index of the request to the store that took it
	candidate bool
	slot      bool
	doubtful  bool // the slot may have been taken: the outcome is unknown
	done      bool // it is settled
	owed      int  // its index in the batch that settles it, or -1

	// The fields below, and At of a slot, belong to the keeper while there is one, and are guarded by its lock.
	gone     bool // the slot was lost, and could not be taken again
	reported bool // the loss was reported
	renewal  int  // its index in the batch that renews it
}

// keep records what a request of the batch took for one part of a shadow policy, or for a candidate.
func (r *Request) keep(op rule.Op, index, request int) {
	if request < 0 || !counts(op) {
		return
	}
	result := &r.batch.requests[request]
	r.keepCharges(index, request, 0, len(result.Charges))
}

// keepLive records what the policies that decide took.
func (r *Request) keepLive(op rule.Op) {
	if !r.holds && !r.takes || !counts(op) {
		return
	}
	for i := range r.parts {
		if it := &r.parts[i]; it.decides() && it.request == 0 {
			r.keepCharges(i, 0, it.from, it.from+len(it.rules.bound))
		}
	}
}

// wasAdmitted reports whether limits admitted a request.
func wasAdmitted(result *store.Request) bool {
	if result.Err != nil {
		return false
	}
	index, allowed := rule.DecidingIndex(result.Answers)
	return allowed && result.Answers[index].Flags&undecided == 0
}

// keepCharges records what some charges of a request took: everything for a part with Hold, otherwise only slots. Where
// the outcome is unknown, slots may have been taken.
func (r *Request) keepCharges(index, request, from, to int) {
	result := &r.batch.requests[request]
	doubtful := result.Err != nil && !isMistake(result.Err)
	if result.Op == rule.Peek || !doubtful && !wasAdmitted(result) {
		return
	}
	for i := from; i < to; i++ {
		charge, slot := result.Charges[i], isSlots(result.Charges[i].Limit)
		if !slot && (doubtful || !r.parts[index].Hold) {
			continue
		}
		if !doubtful {
			charge.Cost, charge.At = result.Answers[i].Granted, result.Answers[i].At
		}
		r.took = append(r.took, heldCharge{
			Charge: charge, part: index, request: request, candidate: request == r.parts[index].candidate, slot: slot, doubtful: doubtful,
		})
	}
}

// Held reports whether the request is admitted and has taken units that Settle can correct, or holds slots.
func (r *Request) Held() bool {
	return r.admitted && r.anyTaken(func(one *heldCharge) bool { return !one.doubtful })
}

// HoldsUnits reports whether the request is admitted and has taken units that Settle can correct.
func (r *Request) HoldsUnits() bool {
	return r.admitted && r.anyTaken(func(one *heldCharge) bool { return !one.slot })
}

// anyTaken reports whether is returns true for anything that was taken. It makes no copies, because the keeper may be changing
// some fields.
func (r *Request) anyTaken(is func(*heldCharge) bool) bool {
	for i := range r.took {
		if is(&r.took[i]) {
			return true
		}
	}
	return false
}

// Reservation returns what an admitted request took, to be settled by the Limiter of its policy when the actual cost is known.
// It has no charges if the store could not decide. A reservation is settled in one namespace, so it is an error if policies of
// a Set made by NewWithStores decided together.
func (r *Request) Reservation() (slidegate.Reservation, error) {
	live := &r.batch.requests[0]
	r.reservationID()
	held := slidegate.Reservation{Version: slidegate.ReservationVersion, ID: r.id, Group: r.Group, Charges: []slidegate.ReservedCharge{}}
	held.Namespace = live.Charges[0].Limit.Namespace()
	if live.Err != nil {
		return held, nil
	}
	for i, charge := range live.Charges {
		if charge.Limit.Namespace() != held.Namespace {
			return slidegate.Reservation{}, fmt.Errorf("policy: %w: a reservation over several namespaces; reserve under each policy separately",
				slidegate.ErrUnsupported)
		}
		held.Charges = append(held.Charges, slidegate.ReservedCharge{
			Limit: slidegate.Unbind(charge.Limit), Key: []byte(charge.Key), Cost: live.Answers[i].Granted, At: live.Answers[i].At,
		})
	}
	return held, nil
}

// Settle replaces the cost of an admitted request's parts with Hold by the actual cost: an excess is returned, and a shortfall
// is charged, beyond the quota if necessary. Actual is called once for each of these parts that took units, with the index of
// the policy and the number of units. That includes parts of shadow policies, and parts of which only the candidate took units.
// The client may have left, and its usage still counts: Settle works after ctx has ended. Slots stay held: Finish releases
// them, and must not be called before settled, which Settle calls once with the result. It does so before it returns, unless
// the outcome is unknown: then it tries again a few times, and calls settled on another goroutine. An error may mean that
// only some parts were settled; those are not settled again by another call.
func (r *Request) Settle(ctx context.Context, actual func(policy int, cost int64) int64, settled func(error)) {
	if !r.Held() {
		settled(fmt.Errorf("policy: %w: nothing was held", slidegate.ErrReservation))
		return
	}
	if err := r.collectActual(actual); err != nil {
		settled(err)
		return
	}
	r.settle(ctx, onlyUnits, true, settled)
}

// collectActual sets the actual cost of each part. A part whose actual cost is invalid keeps what it took.
func (r *Request) collectActual(actual func(policy int, cost int64) int64) (err error) {
	for i := range r.took {
		one := &r.took[i]
		it := &r.parts[one.part]
		if it.settled || one.slot || one.done {
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
func (r *Request) settle(ctx context.Context, units, now bool, settled func(error)) {
	var err error
	if now {
		again := false
		if again, err = r.settleOnce(ctx, units); !again {
			settled(err)
			return
		}
	}
	ended := r.set.releases.begin(r.heldKeys())
	go func() {
		defer ended()
		if !now {
			r.stopRenewals()
		}
		begun, wait := time.Now(), now
		store.Retry(context.WithoutCancel(ctx), func() (again bool) {
			if wait { // the first attempt has failed already
				wait = false
				return true
			}
			if time.Since(begun) > r.longestMemory() {
				return false
			}
			again, err = r.settleOnce(ctx, units)
			return again
		})
		settled(err)
	}()
}

// longestMemory returns how long the slots are held, and a settlement is remembered: after that, a repetition would release
// nothing, and could charge twice.
func (r *Request) longestMemory() (longest time.Duration) {
	for i := range r.took {
		one := &r.took[i]
		longest = max(longest, one.Limit.Rule().Memory().Duration())
		if one.slot {
			longest = max(longest, one.Limit.Rule().Window.Duration())
		}
	}
	return longest
}

// heldKeys returns the keys of what is not settled yet.
func (r *Request) heldKeys() (keys []string) {
	for i := range r.took {
		if one := &r.took[i]; !one.done && !slices.Contains(keys, one.Key) {
			keys = append(keys, one.Key)
		}
	}
	return keys
}

// settleOnce sends what is owed. It reports whether another attempt makes sense.
func (r *Request) settleOnce(ctx context.Context, units bool) (again bool, err error) {
	if !r.collectOwed(units) {
		return false, nil
	}
	ctx, cancel := store.Detach(ctx, r.set.traits[r.mode])
	defer cancel()
	r.owed.apply(ctx, r.Group, r.reservationID(), r.set.stores[r.mode])
	for i := range r.took {
		one := &r.took[i]
		if one.owed < 0 || one.done {
			continue
		}
		result, answer := r.owed.at(one.owed)
		switch {
		case result.Err != nil:
			if !one.doubtful { // otherwise there may be nothing to release
				err = result.Err
			}
			again = again || !isMistake(result.Err)
			continue
		case answer.Flags.Unsettled():
			err = errors.Join(err, fmt.Errorf("policy: %w: nothing was returned or charged for %q", slidegate.ErrUnsettled, one.Limit.Label()))
		}
		one.done = true
	}
	return again, err
}

// collectOwed collects the batch that settles what is not yet settled, with one request for each request to the store that took
// something. It reports whether there is anything to settle.
func (r *Request) collectOwed(units bool) bool {
	if r.keeper != nil {
		r.keeper.mu.Lock()
		defer r.keeper.mu.Unlock()
	}
	for i := range r.took {
		r.took[i].owed = -1
	}
	r.owed.reset()
	owes := func(one *heldCharge) bool {
		it := &r.parts[one.part]
		switch {
		case one.done:
			return false
		case one.slot:
			return !units
		}
		return it.settled && it.actual != one.Cost
	}
	r.eachRequest(owes, func(all []heldCharge) {
		r.owed.begin(rule.Settle)
		for i := range all {
			one := &all[i]
			if !owes(one) {
				continue
			}
			charge := one.Charge
			if !one.slot {
				charge.Used = r.parts[one.part].actual
			}
			one.owed = r.owed.join(charge)
		}
	})
	return len(r.owed.requests) > 0
}

// eachRequest calls use with what each request to the store took, if which returns true for any of it. What a failure layer
// took in place of the store is separate from what the store took: a lost slot may have been taken again by the other.
func (r *Request) eachRequest(which func(*heldCharge) bool, use func(all []heldCharge)) {
	for from, to := 0, 0; from < len(r.took); from = to {
		some := false
		for to < len(r.took) && r.took[to].request == r.took[from].request && (r.took[to].At < 0) == (r.took[from].At < 0) {
			some = some || which(&r.took[to])
			to++
		}
		if some {
			use(r.took[from:to])
		}
	}
}
