package policy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// keeper renews the slots of one request. It has a timer and no goroutine, so a request that ends before its first
// renewal costs little.
type keeper struct {
	ctx      context.Context
	report   func(Verdict)
	interval time.Duration

	mu      sync.Mutex // held while slots are renewed; also guards some fields of what the request took
	request *Request   // nil when it has ended
	timer   *time.Timer
	failing bool // the last renewal failed
	batch   batch
}

const (
	renewals   = 3 // per time to live of a slot
	renewTries = 4 // per interval between renewals, after a failure
)

// RenewSlots renews the slots that an admitted request holds, three times within their time to live, until Finish or End. A
// failed renewal is retried sooner. If a slot is lost nevertheless, because the store could not be reached within its
// time to live, RenewSlots takes another one if one is free, and otherwise tries again with the next renewal; the request
// continues in either case. Report is called for each failure, on another goroutine: Err of the verdict is the reason,
// and wraps ErrSlotLost if a slot was lost. Report may be nil. Ctx provides values, but its end is ignored. Without
// slots, RenewSlots does nothing.
func (r *Request) RenewSlots(ctx context.Context, report func(Verdict)) {
	ttl := rule.Never
	for i := range r.took {
		if one := &r.took[i]; one.renewable() {
			ttl = min(ttl, one.Limit.Rule().Window)
		}
	}
	if ttl == rule.Never || r.keeper != nil {
		return
	}
	k := &keeper{ctx: ctx, report: report, interval: ttl.Duration() / renewals, request: r}
	k.mu.Lock() // otherwise the timer could fire before k.timer is set
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(k.interval, k.renew)
	r.keeper = k
}

// stop ends the renewals. When it returns, none is under way.
func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.request = nil
	k.timer.Stop()
}

// renew renews the slots and resets the timer.
func (k *keeper) renew() {
	for _, v := range k.renewAll() {
		if k.report != nil {
			k.report(v)
		}
	}
}

func (k *keeper) renewAll() (reports []Verdict) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.request
	if r == nil {
		return nil
	}
	ctx, cancel := store.Detach(k.ctx, r.set.traits[r.mode])
	defer cancel()
	err := k.renewSlots(ctx, r)
	if err == nil {
		reports, err = k.retakeSlots(ctx, r)
	}
	next := k.interval
	if err != nil {
		next /= renewTries
	}
	if err != nil && !k.failing {
		reports = append(reports, Verdict{Policy: r.parts[0].policy.name, Err: fmt.Errorf("policy: slots could not be renewed; trying again soon: %w", err)})
	}
	k.failing = err != nil
	k.timer.Reset(next)
	return reports
}

// renewable reports whether it is a slot that the request holds, or should hold.
func (t *heldCharge) renewable() bool { return t.slot && !t.done && !t.doubtful }

// renewSlots renews all slots, and marks those that are lost.
func (k *keeper) renewSlots(ctx context.Context, r *Request) (err error) {
	k.batch.reset()
	r.eachRequest((*heldCharge).renewable, func(all []heldCharge) {
		k.batch.begin(rule.Renew)
		for i := range all {
			if one := &all[i]; one.renewable() {
				one.renewal = k.batch.join(store.Charge{Limit: one.Limit, Key: one.Key, Cost: 1, At: one.At})
			}
		}
	})
	k.batch.apply(ctx, r.Group, r.reservationID(), r.set.stores[r.mode])
	for i := range r.took {
		one := &r.took[i]
		if !one.renewable() {
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

// retakeSlots takes lost slots again, in one request per slot, and returns verdicts to report.
func (k *keeper) retakeSlots(ctx context.Context, r *Request) (reports []Verdict, err error) {
	k.batch.reset()
	for i := range r.took {
		if one := &r.took[i]; one.renewable() && one.gone {
			k.batch.begin(rule.Take)
			one.renewal = k.batch.join(store.Charge{Limit: one.Limit, Key: one.Key, Cost: 1})
		}
	}
	if len(k.batch.requests) == 0 {
		return nil, nil
	}
	k.batch.apply(ctx, r.Group, r.reservationID(), r.set.stores[r.mode])
	for i := range r.took {
		one := &r.took[i]
		if !one.renewable() || !one.gone {
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
			reports = append(reports, r.lostVerdict(one, result))
		}
		one.reported = !answer.Allowed
	}
	return reports, err
}

// lostVerdict returns the verdict on a lost slot, with the result of taking another one.
func (r *Request) lostVerdict(one *heldCharge, result *store.Request) Verdict {
	p := r.parts[one.part].policy
	return Verdict{
		Policy: p.name, Shadow: p.shadow, Candidate: one.candidate,
		Decision: slidegate.Combine(result), Limits: []slidegate.Limit{slidegate.Unbind(one.Limit)},
		Err: fmt.Errorf("policy %q: %w: it was not renewed within %v", p.name, ErrSlotLost, one.Limit.Rule().Window.Duration()),
	}
}
