package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// taken is what a request took of one limit: a part with Hold, or a slot. Its Cost is what was granted, and At when.
type taken struct {
	store.Charge
	part      int // its place among the parts
	request   int // which of the requests to the store took it
	candidate bool
	slot      bool
	doubtful  bool // the slot may have been taken: the outcome is unknown
	done      bool // it is settled
	gone      bool // the slot was lost, and could not be taken again,
	told      bool // and that was reported
	owed      int  // where the charge is in the batch that settles or renews it; -1 if it is not there
}

// keep remembers what a request of the batch that asked one part took: that of a policy in the shadow, or of a candidate.
func (r *Request) keep(op rule.Op, place, request int) {
	if request < 0 || !counts(op) {
		return
	}
	said := &r.batch.requests[request]
	r.keepCharges(place, request, 0, len(said.Charges))
}

// keepLive remembers what the policies that decide took.
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

// took reports whether limits admitted a request.
func took(said *store.Request) bool {
	if said.Err != nil {
		return false
	}
	index, allowed := rule.Deciding(said.Answers)
	return allowed && said.Answers[index].Flags&undecided == 0
}

// keepCharges remembers what some charges of a request took: all that it took of a part with Hold, and else the slots. Where
// the outcome is unknown, slots may have been taken.
func (r *Request) keepCharges(place, request, from, to int) {
	said := &r.batch.requests[request]
	doubtful := said.Err != nil && !isMistake(said.Err)
	if !doubtful && !took(said) {
		return
	}
	for i := from; i < to; i++ {
		charge, slot := said.Charges[i], isSlots(said.Charges[i].Limit)
		if !slot && (doubtful || !r.parts[place].Hold) {
			continue
		}
		if !doubtful {
			charge.Cost, charge.At = said.Answers[i].Granted, said.Answers[i].At
		}
		r.took = append(r.took, taken{
			Charge: charge, part: place, request: request, candidate: request == r.parts[place].candidate, slot: slot, doubtful: doubtful,
		})
	}
}

// Held reports whether the request is admitted and has taken something that Settle can correct, or holds slots.
func (r *Request) Held() bool {
	return r.admitted && r.tookAny(func(one *taken) bool { return !one.doubtful })
}

// HoldsUnits reports whether the request is admitted and has taken units that Settle can correct.
func (r *Request) HoldsUnits() bool {
	return r.admitted && r.tookAny(func(one *taken) bool { return !one.slot })
}

// Reservation returns what an admitted request took, to be settled when the true cost is known by the Limiter of the policy
// that took it. It has no charges if the store could not decide. A reservation is settled in one namespace, so it is an error
// if policies of a Set that NewOver made decided together.
func (r *Request) Reservation() (slidegate.Reservation, error) {
	live := &r.batch.requests[0]
	r.number()
	held := slidegate.Reservation{Version: slidegate.ReservationVersion, ID: r.id, Group: r.Group, Charges: []slidegate.ReservedCharge{}}
	if live.Err != nil {
		return held, nil
	}
	for i, charge := range live.Charges {
		if charge.Limit.Namespace() != live.Charges[0].Limit.Namespace() {
			return slidegate.Reservation{}, fmt.Errorf("policy: %w: a reservation over several namespaces; reserve under one policy after the other",
				slidegate.ErrUnsupported)
		}
		held.Charges = append(held.Charges, slidegate.ReservedCharge{
			Limit: slidegate.Unbind(charge.Limit), Key: []byte(charge.Key), Cost: live.Answers[i].Granted, At: live.Answers[i].At,
		})
	}
	return held, nil
}

// Settle charges what an admitted request actually cost in place of what its parts with Hold took: an excess is given back,
// and a shortfall is charged, beyond the quota if need be. Actual is called once for each of these parts of which something
// was taken, with what was; also for one in the shadow, and for one of which only the candidate took something. An error may
// mean that only some of it was settled; what was settled is not settled again by another call. The client may have gone, and
// what it used still counts: Settle works after ctx has ended. Slots stay held: Finish releases them.
func (r *Request) Settle(ctx context.Context, actual func(policy int, cost int64) int64) error {
	if !r.Held() {
		return fmt.Errorf("policy: %w: nothing was held", slidegate.ErrReservation)
	}
	if err := r.learn(actual); err != nil {
		return err
	}
	if r.keeper != nil { // a renewal under way uses the same memory
		r.keeper.mu.Lock()
		defer r.keeper.mu.Unlock()
	}
	return r.settle(ctx, 1, onlyUnits)
}

// learn asks what each part cost. A part whose cost is wrong keeps what it took.
func (r *Request) learn(actual func(policy int, cost int64) int64) (err error) {
	for i := range r.took {
		one := &r.took[i]
		it := &r.parts[one.part]
		if it.settled || one.slot || one.done {
			continue
		}
		cost := min(actual(it.Policy, min(one.Cost, it.cost())), rule.MaxQuota) // a log may have taken a unit of what costs nothing
		if cost < 0 {
			err = fmt.Errorf("policy: %w: the actual cost must not be negative, it is %d", slidegate.ErrCost, cost)
			cost = one.Cost
		}
		it.actual, it.settled = cost, true
	}
	return err
}

// What a call of settle is about.
const (
	everything = false
	onlyUnits  = true
)

// settle sends what is owed, and what could not be sent again up to so many times in all.
func (r *Request) settle(ctx context.Context, tries int, units bool) (err error) {
	begun := time.Now()
	for try := range tries {
		if try > 0 {
			if time.Sleep(releasePauses[try-1]); time.Since(begun) > r.longest() {
				break // the slots have ended by themselves
			}
		}
		again, failed := r.settleOnce(ctx, units)
		if err = failed; !again {
			break
		}
	}
	return err
}

// longest returns the longest time to live of the slots.
func (r *Request) longest() (ttl time.Duration) {
	for i := range r.took {
		if one := &r.took[i]; one.slot {
			ttl = max(ttl, one.Limit.Rule().Window.Duration())
		}
	}
	return ttl
}

// settleOnce sends what is owed. It reports whether it makes sense to try again.
func (r *Request) settleOnce(ctx context.Context, units bool) (again bool, err error) {
	if !r.owe(units) {
		return false, nil
	}
	ctx, cancel := store.Detach(ctx, r.set.traits[r.mode])
	defer cancel()
	r.owed.apply(ctx, r.Group, r.number(), r.set.stores[r.mode])
	for i := range r.took {
		one := &r.took[i]
		if one.owed < 0 || one.done {
			continue
		}
		said, answer := r.owed.at(one.owed)
		switch {
		case said.Err != nil:
			if !one.doubtful { // else there may be nothing to release
				err = said.Err
			}
			again = again || !isMistake(said.Err)
			continue
		case answer.Flags.Unsettled():
			err = errors.Join(err, fmt.Errorf("policy: %w: nothing was given back or charged of %q", slidegate.ErrUnsettled, one.Limit.Label()))
		}
		one.done = true
	}
	return again, err
}

// owe makes the batch that settles what is not settled yet, and reports whether there is any: one request for what each request to
// the store took.
func (r *Request) owe(units bool) bool {
	for i := range r.took {
		r.took[i].owed = -1
	}
	r.owed.reset()
	owes := func(one *taken) bool {
		it := &r.parts[one.part]
		switch {
		case one.done:
			return false
		case one.slot:
			return !units
		}
		return it.settled && it.actual != one.Cost
	}
	r.eachRequest(owes, func(all []taken) {
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

// eachRequest calls use with what each request to the store took, if there is something in it that which reports. What a failure
// layer took in place of the store is apart from what the store took: a slot that was lost may have been taken again elsewhere.
func (r *Request) eachRequest(which func(*taken) bool, use func(all []taken)) {
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
