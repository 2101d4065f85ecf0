package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// eachRequest calls use with what each request to the store took, if which returns true for any of it. What a failure layer
// took in place of the store is separate from what the store took: a lost slot may have been taken again by the other.
func (t *Transaction) eachRequest(which func(*heldCharge) bool, use func(all []heldCharge)) {
	for from, to := 0, 0; from < len(t.held.took); from = to {
		some := false
		_, place := answering.Unmark(t.held.took[from].At)
		for to < len(t.held.took) && t.held.took[to].request == t.held.took[from].request {
			if _, other := answering.Unmark(t.held.took[to].At); other != place {
				break
			}
			some = some || which(&t.held.took[to])
			to++
		}
		if some {
			use(t.held.took[from:to])
		}
	}
}

// heldCharge is what a request took of one limit: units for a part with Hold, units of a limit with Hold, or a slot. Cost is what was
// granted, and At when.
type heldCharge struct {
	store.Charge
	part     int // the index of its part
	request  int // the index of the request to the store that took it
	slot     bool
	hold     bool // the units are held, and charged when they are settled
	doubtful bool // it may have been taken: the outcome is unknown
	done     bool // it is settled
	owed     int  // its index in the batch that settles it, or -1

	// The fields below, and At of a slot, belong to the keeper while there is one, and are guarded by its lock.
	gone     bool // it was lost, and a slot could not be taken again
	reported bool // the loss was reported
	renewal  int  // its index in the batch that renews it
}

// held is what a transaction has taken and must give back or settle.
type held struct {
	admitted bool         // by the last Decide
	took     []heldCharge // what parts with Hold have taken so far, and the slots and held units of all parts
	owed     batch        // the requests that settle it
	id       string       // of the reservation, chosen before anything is taken
	keeper   *keeper      // renews slots and held units, if RenewSlots was called
}

func (h *held) reset() {
	clear(h.took)
	h.owed.reset()
	h.took = h.took[:0]
	h.admitted, h.id, h.keeper = false, "", nil
}

// keepTaken records what the requests of the plan took.
func (t *Transaction) keepTaken() {
	if t.plan.id == 0 {
		return
	}
	for i := range t.plan.entries {
		t.keep(&t.plan.entries[i])
	}
}

// wasAdmitted reports whether limits admitted a request.
func wasAdmitted(result *store.Request) bool {
	if result.Err != nil {
		return false
	}
	index, allowed := answering.Deciding(result.Answers)
	return allowed && result.Answers[index].Flags&undecided == 0
}

// keep records what an entry of the plan took: everything for a part with Hold, otherwise only slots and held units. Where the outcome is
// unknown, these may have been taken.
func (t *Transaction) keep(e *entry) {
	result := t.plan.result(e)
	doubtful := result.Err != nil && !failure.IsMistake(result.Err)
	if result.Op == rule.Peek || !doubtful && !wasAdmitted(result) {
		return
	}
	for i := e.from; i < e.from+len(e.bundle.bound); i++ {
		charge, slot := result.Charges[i], isSlots(result.Charges[i].Limit)
		hold := result.Hold && holdsUnits(charge.Limit)
		if !slot && !hold && (doubtful || !t.parts[e.part].Hold) {
			continue
		}
		if !doubtful {
			charge.Cost, charge.At = result.Answers[i].Granted, result.Answers[i].At
		}
		t.held.took = append(t.held.took, heldCharge{
			Charge: charge, part: e.part, request: e.request, slot: slot, hold: hold, doubtful: doubtful,
		})
	}
}

// Held reports whether the request is admitted and has taken units that Settle can correct, or holds slots.
func (t *Transaction) Held() bool {
	return t.held.admitted && t.anyTaken(func(one *heldCharge) bool { return !one.doubtful })
}

// HoldsUnits reports whether the request is admitted and has taken units for a part with Hold, which Settle can correct.
func (t *Transaction) HoldsUnits() bool {
	return t.held.admitted && t.anyTaken(func(one *heldCharge) bool { return !one.slot && t.parts[one.part].Hold })
}

// HeldBy calls use with the index of each policy for which the request holds what it took: the same ones until it is finished.
func (t *Transaction) HeldBy(use func(policy int)) {
	for i := range t.parts {
		if t.anyTaken(func(one *heldCharge) bool { return one.part == i }) {
			use(t.parts[i].Policy)
		}
	}
}

// anyTaken reports whether is returns true for anything that was taken. It makes no copies, because the keeper may be changing
// some fields.
func (t *Transaction) anyTaken(is func(*heldCharge) bool) bool {
	for i := range t.held.took {
		if is(&t.held.took[i]) {
			return true
		}
	}
	return false
}

// keeper renews the slots and the held units of one request. It has a timer and no goroutine, so a request that ends before its first
// renewal costs little.
type keeper struct {
	ctx      context.Context
	report   func(policy.Decision)
	interval time.Duration
	until    time.Time // when held units are renewed for the last time

	mu      sync.Mutex   // held while they are renewed; also guards some fields of what the request took
	request *Transaction // nil when it has ended
	timer   *time.Timer
	failing bool // the last renewal failed
	batch   batch
}

// renewable reports whether it is a slot that the request holds, or should hold, or are held units, which it may have lost.
func (t *heldCharge) renewable() bool { return (t.slot || t.hold) && !t.done && !t.doubtful }

// reservationID returns the number of the request's reservation, whose ID is chosen at the first call, unless the caller chose one.
func (t *Transaction) reservationID() rule.ID {
	for i := range t.given {
		t.held.id = cmp.Or(t.held.id, t.given[i].ID)
	}
	if t.held.id == "" {
		t.held.id = rand.Text()
	}
	return store.IDOf(t.held.id)
}

// HoldsSlots reports whether the request is admitted and holds slots, or units of a limit with Hold, which RenewSlots keeps.
func (t *Transaction) HoldsSlots() bool {
	return t.held.admitted && t.anyTaken((*heldCharge).renewable)
}

// holdsSlots reports whether there are slots to release, or held units to settle.
func (t *Transaction) holdsSlots() bool {
	return t.anyTaken(func(one *heldCharge) bool { return (one.slot || one.hold) && !one.done })
}

// slotPatience is how long a request waits for slots that are about to be released: many times the latency of a store,
// and less than a client notices.
const slotPatience = 200 * time.Millisecond

// identifyHold gives what the plan takes an ID if it is settled or released afterwards, or given back if the client leaves meanwhile.
func (t *Transaction) identifyHold() {
	p := &t.plan
	if !counts(p.op) {
		return
	}
	for i := range p.entries {
		e := &p.entries[i]
		if it := &t.parts[e.part]; t.mayBeLeft() || it.Hold || it.holds || e.bundle.slots && p.ops[e.request] == rule.Take {
			p.id = t.reservationID()
			return
		}
	}
}

// awaitSlots calls the store once more if only in-flight limits refused the request while this process was releasing
// slots of its key. A client that sends its next request as soon as it has the last response must find the slot free.
func (t *Transaction) awaitSlots(ctx context.Context) {
	p := &t.plan
	t.awaitCancelled(p.cancelled)
	if p.id == 0 || !p.hasJoint() {
		return
	}
	joint := &p.batch.requests[0]
	key, only := slotRefusal(joint)
	if !only {
		return
	}
	underway := t.set.releases.underway(key)
	if len(underway) == 0 {
		return
	}
	patience := time.NewTimer(slotPatience)
	defer patience.Stop()
	for _, done := range underway {
		select {
		case <-done:
		case <-ctx.Done():
			return
		case <-patience.C:
			return
		}
	}
	joint.Err = nil
	cancelled, err := detach.Reserve(ctx, t.set.store, p.batch.requests[:1])
	if err != nil && joint.Err == nil {
		joint.Err = err
	}
	t.awaitCancelled(cancelled)
}

// awaitCancelled makes Drain wait until what was taken for a client that has left is cancelled. Cancelled is nil if the
// client is still there.
func (t *Transaction) awaitCancelled(cancelled <-chan struct{}) {
	if cancelled == nil {
		return
	}
	var keys []string
	for i := range t.parts {
		keys = append(keys, t.parts[i].Key)
	}
	ended := t.set.releases.begin(slices.Compact(keys))
	go func() {
		<-cancelled
		ended()
	}()
}

// slotRefusal reports whether only in-flight limits refused a request, and the key of the first.
func slotRefusal(result *store.Request) (key string, only bool) {
	if result.Err != nil || result.Op != rule.Take {
		return "", false
	}
	for i := range result.Answers {
		switch a := &result.Answers[i]; {
		case a.Flags&answering.Fallbacks != 0:
			return "", false
		case a.Allowed:
		case !isSlots(result.Charges[i].Limit):
			return "", false
		case !only:
			key, only = result.Charges[i].Key, true
		}
	}
	return key, only
}
