package policy

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// taken is what a part with Hold took of one limit. Its Cost is what was granted, and At when.
type taken struct {
	store.Charge
	part    int // its place among the parts
	request int // which of the requests to the store took it
}

// keep remembers what a request of the batch that asked one part took: that of a policy in the shadow, or of a candidate.
func (r *Request) keep(op rule.Op, place, request int) {
	if request < 0 || !counts(op) || !r.parts[place].Hold {
		return
	}
	if said := &r.batch.requests[request]; took(said) {
		r.keepCharges(place, request, 0, len(said.Charges))
	}
}

// keepLive remembers what the policies that decide took.
func (r *Request) keepLive(op rule.Op) {
	if !r.holds || !counts(op) || !took(&r.batch.requests[0]) {
		return
	}
	for i := range r.parts {
		if it := &r.parts[i]; it.Hold && it.decides() && it.request == 0 {
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

func (r *Request) keepCharges(place, request, from, to int) {
	said := &r.batch.requests[request]
	for i := from; i < to; i++ {
		charge := said.Charges[i]
		charge.Cost, charge.At = said.Answers[i].Granted, said.Answers[i].At
		r.took = append(r.took, taken{Charge: charge, part: place, request: request})
	}
}

// Held reports whether the request is admitted and has taken something that Settle can correct.
func (r *Request) Held() bool { return r.admitted && len(r.took) > 0 }

// Reservation returns what an admitted request took, to be settled when the true cost is known by the Limiter of the policy
// that took it. It has no charges if the store could not decide. A reservation is settled in one namespace, so it is an error
// if policies of a Set that NewOver made decided together.
func (r *Request) Reservation() (slidegate.Reservation, error) {
	live := &r.batch.requests[0]
	held := slidegate.Reservation{ID: rand.Text(), Group: r.Group, Charges: []slidegate.ReservedCharge{}}
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
// mean that only some of it was settled. The client may have gone, and what it used still counts: Settle works after ctx has
// ended.
func (r *Request) Settle(ctx context.Context, actual func(policy int, cost int64) int64) error {
	if !r.Held() {
		return fmt.Errorf("policy: %w: nothing was held", slidegate.ErrReservation)
	}
	if err := r.learn(actual); err != nil {
		return err
	}
	r.owed.reset()
	for from, to := 0, 0; from < len(r.took); from = to {
		for to < len(r.took) && r.took[to].request == r.took[from].request {
			to++
		}
		r.giveBack(r.took[from:to])
		r.charge(r.took[from:to])
	}
	if len(r.owed.requests) == 0 {
		return nil
	}
	ctx, cancel := store.Detach(ctx, r.set.traits[r.mode])
	defer cancel()
	r.owed.apply(ctx, r.Group, r.set.stores[r.mode])
	for i := range r.owed.requests {
		if err := r.owed.requests[i].Err; err != nil {
			return err
		}
	}
	return nil
}

// learn asks what each part cost.
func (r *Request) learn(actual func(policy int, cost int64) int64) error {
	for i := range r.took {
		it := &r.parts[r.took[i].part]
		if it.settled {
			continue
		}
		it.actual, it.settled = min(actual(it.Policy, r.took[i].Cost), rule.MaxQuota), true
		if it.actual < 0 {
			return fmt.Errorf("policy: %w: the actual cost must not be negative, it is %d", slidegate.ErrCost, it.actual)
		}
	}
	return nil
}

// giveBack owes what one request to the store took too much.
func (r *Request) giveBack(all []taken) {
	begun := false
	for i := range all {
		one := &all[i]
		if over := one.Cost - r.parts[one.part].actual; over > 0 {
			if !begun {
				r.owed.begin(rule.GiveBack)
				begun = true
			}
			r.owed.join(store.Charge{Limit: one.Limit, Key: one.Key, Cost: over, At: one.At})
		}
	}
}

// charge owes what one request to the store took too little.
func (r *Request) charge(all []taken) {
	begun := false
	for i := range all {
		one := &all[i]
		if under := r.parts[one.part].actual - one.Cost; under > 0 {
			if !begun {
				r.owed.begin(rule.Charge)
				begun = true
			}
			r.owed.join(store.Charge{Limit: one.Limit, Key: one.Key, Cost: under})
		}
	}
}
