package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

const (
	renewals   = 3 // per time to live of a slot
	renewTries = 4 // per interval between renewals, after a failure

	longestHold = time.Hour // of the units of one request: a request that never ends does not hold them forever
)

// RenewSlots renews the slots that an admitted request holds, three times within their time to live, until Finish or End. A
// failed renewal is retried sooner. If a slot is lost nevertheless, because the store could not be reached within its
// time to live, RenewSlots takes another one if one is free, and otherwise tries again with the next renewal; the request
// continues in either case. Report is called for each failure, on another goroutine: Err of the decision is the reason,
// and wraps policy.ErrSlotLost if a slot was lost. Report may be nil. Ctx provides values, but its end is ignored. Without
// slots, RenewSlots does nothing.
//
// It also renews units of limits with Hold, for at most an hour. Those that are lost are not held again, but they are charged when the
// request ends. Err then wraps policy.ErrHoldLost.
func (t *Transaction) RenewSlots(ctx context.Context, report func(policy.Decision)) {
	ttl := rule.Never
	for i := range t.held.took {
		if one := &t.held.took[i]; one.renewable() {
			ttl = min(ttl, one.lasts())
		}
	}
	if ttl == rule.Never || t.held.keeper != nil {
		return
	}
	k := &keeper{ctx: ctx, report: report, interval: ttl.Duration() / renewals, until: time.Now().Add(longestHold), request: t}
	k.mu.Lock() // otherwise the timer could fire before k.timer is set
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(k.interval, k.renew)
	t.held.keeper = k
}

// lasts returns how long it is held unless it is renewed.
func (t *heldCharge) lasts() rule.Micros {
	if t.hold {
		return t.Limit.Rule().Hold
	}
	return t.Limit.Rule().Window
}

// renews reports whether it is to be renewed: lost units are not held again.
func (k *keeper) renews(one *heldCharge) bool {
	return one.renewable() && !(one.hold && (one.gone || time.Now().After(k.until)))
}

// stop ends the renewals. When it returns, none is under way.
func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.request = nil
	k.timer.Stop()
}

// renew renews what is held and resets the timer.
func (k *keeper) renew() {
	for _, v := range k.renewAll() {
		if k.report != nil {
			k.report(v)
		}
	}
}

func (k *keeper) renewAll() (reports []policy.Decision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.request
	if t == nil {
		return nil
	}
	ctx, cancel := detach.Context(k.ctx, t.set.traits)
	defer cancel()
	err := k.renewSlots(ctx, t)
	reports = t.lostHolds()
	if err == nil {
		var retaken []policy.Decision
		retaken, err = k.retakeSlots(ctx, t)
		reports = append(reports, retaken...)
	}
	next := k.interval
	if err != nil {
		next /= renewTries
	}
	if err != nil && !k.failing {
		reports = append(reports, policy.Decision{Policy: t.parts[0].policy.name, Err: fmt.Errorf("policy: what the request holds could not be renewed; trying again soon: %w", err)})
	}
	k.failing = err != nil
	k.timer.Reset(next)
	return reports
}

// renewSlots renews all slots and held units, and marks those that are lost.
func (k *keeper) renewSlots(ctx context.Context, t *Transaction) (err error) {
	k.batch.reset()
	for i := range t.held.took {
		t.held.took[i].renewal = -1
	}
	t.eachRequest(k.renews, func(all []heldCharge) {
		k.batch.begin(rule.Renew)
		for i := range all {
			if one := &all[i]; k.renews(one) {
				one.renewal = k.batch.add(store.Charge{Limit: one.Limit, Key: one.Key, Cost: 1, At: one.At})
			}
		}
	})
	if len(k.batch.requests) == 0 {
		return nil
	}
	k.batch.apply(ctx, t.Group, t.reservationID(), t.set.store)
	for i := range t.held.took {
		one := &t.held.took[i]
		if one.renewal < 0 {
			continue
		}
		result, answer := k.batch.at(one.renewal)
		if result.Err != nil {
			err = result.Err
			continue
		}
		one.gone = !answer.Allowed
	}
	return err
}

// retakeSlots takes lost slots again, in one request per slot, and returns decisions to report.
func (k *keeper) retakeSlots(ctx context.Context, t *Transaction) (reports []policy.Decision, err error) {
	k.batch.reset()
	for i := range t.held.took {
		if one := &t.held.took[i]; one.slot && one.renewable() && one.gone {
			k.batch.begin(rule.Take)
			one.renewal = k.batch.add(store.Charge{Limit: one.Limit, Key: one.Key, Cost: 1})
		}
	}
	if len(k.batch.requests) == 0 {
		return nil, nil
	}
	k.batch.apply(ctx, t.Group, t.reservationID(), t.set.store)
	for i := range t.held.took {
		one := &t.held.took[i]
		if !one.slot || !one.renewable() || !one.gone {
			continue
		}
		result, answer := k.batch.at(one.renewal)
		if result.Err != nil || answer.Flags&undecided != 0 {
			err = result.Err
			continue
		}
		if answer.Allowed {
			one.gone, one.At = false, answer.At
		}
		if !one.reported || answer.Allowed {
			reports = append(reports, t.lostSlot(one, result))
		}
		one.reported = !answer.Allowed
	}
	return reports, err
}

// lostHolds returns decisions to report about held units that were lost.
func (t *Transaction) lostHolds() (reports []policy.Decision) {
	for i := range t.held.took {
		if one := &t.held.took[i]; one.hold && one.gone && !one.reported {
			one.reported = true
			p := t.parts[one.part].policy
			reports = append(reports, policy.Decision{
				Policy: p.name, Shadow: p.shadow, Limits: []slidegate.Limit{adapter.Unbind(one.Limit)},
				Err: fmt.Errorf("policy %q: %w: they were not renewed within %v", p.name, policy.ErrHoldLost, one.lasts().Duration()),
			})
		}
	}
	return reports
}

// lostSlot returns the decision about a lost slot, with the result of taking another one.
func (t *Transaction) lostSlot(one *heldCharge, result *store.Request) policy.Decision {
	p := t.parts[one.part].policy
	return policy.Decision{
		Policy: p.name, Shadow: p.shadow,
		Decision: adapter.Combine(result.Charges, result.Answers), Limits: []slidegate.Limit{adapter.Unbind(one.Limit)},
		Err: fmt.Errorf("policy %q: %w: it was not renewed within %v", p.name, policy.ErrSlotLost, one.Limit.Rule().Window.Duration()),
	}
}

// stopRenewals stops the renewals of slots, if there are any.
func (t *Transaction) stopRenewals() {
	if t.held.keeper != nil {
		t.held.keeper.stop()
	}
}
