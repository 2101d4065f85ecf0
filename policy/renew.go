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

// keeper renews the slots of one request. It has a timer and no goroutine, so a request that is over before the first renewal is
// due costs little.
type keeper struct {
	ctx    context.Context
	report func(Verdict)
	every  time.Duration

	mu      sync.Mutex // held while slots are renewed, or units are settled before the request ends
	request *Request   // nil when it has ended
	timer   *time.Timer
	failing bool // the last renewal failed
}

const (
	renewals   = 3 // in the time to live of a slot
	renewTries = 4 // in the time between two renewals, if one fails
)

// Keep renews the slots that an admitted request holds, three times in their time to live, until Finish or End. A renewal that fails is tried
// again sooner. If a slot was lost all the same, because the store could not be reached in its time to live, Keep takes another one
// if there is room, and otherwise tries again with the next renewal; the request goes on in either case. Report is called with what
// went wrong, on another goroutine: Err of the verdict says what, and wraps ErrSlotLost if a slot was lost. It may be nil.
// Ctx gives its values, but not its end. Without slots, Keep does nothing.
func (r *Request) Keep(ctx context.Context, report func(Verdict)) {
	ttl := rule.Never
	for i := range r.took {
		if one := &r.took[i]; one.renewable() {
			ttl = min(ttl, one.Limit.Rule().Window)
		}
	}
	if ttl == rule.Never || r.keeper != nil {
		return
	}
	k := &keeper{ctx: ctx, report: report, every: ttl.Duration() / renewals, request: r}
	k.mu.Lock() // or the timer could be there before k.timer is
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(k.every, k.renew)
	r.keeper = k
}

// stop ends the renewals. When it returns, none is under way.
func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.request = nil
	k.timer.Stop()
}

// renew renews the slots and sets the timer again.
func (k *keeper) renew() {
	for _, v := range k.renewAll() {
		if k.report != nil {
			k.report(v)
		}
	}
}

func (k *keeper) renewAll() (news []Verdict) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.request
	if r == nil {
		return nil
	}
	ctx, cancel := store.Detach(k.ctx, r.set.traits[r.mode])
	defer cancel()
	err := r.renewSlots(ctx)
	if err == nil {
		news, err = r.retakeSlots(ctx)
	}
	next := k.every
	if err != nil {
		next /= renewTries
	}
	if err != nil && !k.failing {
		news = append(news, Verdict{Policy: r.parts[0].policy.name, Err: fmt.Errorf("policy: slots could not be renewed, and will be tried again: %w", err)})
	}
	k.failing = err != nil
	k.timer.Reset(next)
	return news
}

// renewable reports whether it is a slot that the request holds, or should.
func (t *taken) renewable() bool { return t.slot && !t.done && !t.doubtful }

// renewSlots renews all slots, and marks those that are lost.
func (r *Request) renewSlots(ctx context.Context) (err error) {
	r.owed.reset()
	r.eachRequest((*taken).renewable, func(all []taken) {
		r.owed.begin(rule.Renew)
		for i := range all {
			if one := &all[i]; one.renewable() {
				one.owed = r.owed.join(store.Charge{Limit: one.Limit, Key: one.Key, Cost: 1, At: one.At})
			}
		}
	})
	r.owed.apply(ctx, r.Group, r.number(), r.set.stores[r.mode])
	for i := range r.took {
		one := &r.took[i]
		if !one.renewable() {
			continue
		}
		said, answer := r.owed.at(one.owed)
		if said.Err != nil {
			err = said.Err
			continue
		}
		one.gone = !answer.Allowed
	}
	return err
}

// retakeSlots takes slots again that are lost, each by itself, and returns what there is to report.
func (r *Request) retakeSlots(ctx context.Context) (news []Verdict, err error) {
	r.owed.reset()
	for i := range r.took {
		if one := &r.took[i]; one.renewable() && one.gone {
			r.owed.begin(rule.Take)
			one.owed = r.owed.join(store.Charge{Limit: one.Limit, Key: one.Key, Cost: 1})
		}
	}
	if len(r.owed.requests) == 0 {
		return nil, nil
	}
	r.owed.apply(ctx, r.Group, r.number(), r.set.stores[r.mode])
	for i := range r.took {
		one := &r.took[i]
		if !one.renewable() || !one.gone {
			continue
		}
		said, answer := r.owed.at(one.owed)
		if said.Err != nil || answer.Flags&undecided != 0 {
			err = said.Err
			continue
		}
		if answer.Allowed {
			one.gone, one.At = false, answer.At
		}
		if !one.told || answer.Allowed {
			news = append(news, r.lost(one, said))
		}
		one.told = !answer.Allowed
	}
	return news, err
}

// lost returns the report of a slot that was lost, and of what came of taking another one.
func (r *Request) lost(one *taken, said *store.Request) Verdict {
	p := r.parts[one.part].policy
	return Verdict{
		Policy: p.name, Shadow: p.shadow, Candidate: one.candidate,
		Decision: slidegate.Combine(said), Limits: []slidegate.Limit{slidegate.Unbind(one.Limit)},
		Err: fmt.Errorf("policy %q: %w: it was not renewed within %v", p.name, ErrSlotLost, one.Limit.Rule().Window.Duration()),
	}
}
