package policy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Slots defines who releases the slots that a Request takes from in-flight limits.
type Slots uint8

// Values of Slots.
const (
	// SlotsNone: nothing does, because the request is decided here and runs elsewhere. Taking from an in-flight limit
	// is a mistake whose Err wraps ErrSlots, and a candidate with such a limit is not decided.
	SlotsNone Slots = iota
	// SlotsHeld: the Request, which holds them while the caller's work lasts. After an admission for which Held is true,
	// the caller calls RenewSlots, which renews them, and Finish when the work has ended. Shadow policies and candidates
	// hold slots too. It may also be set where there are no in-flight limits.
	SlotsHeld
	// SlotsReserved: the owner of the Reservation, by its limiter's Renew and Release. A candidate is not part of a
	// reservation, so one with an in-flight limit is not decided.
	SlotsReserved
)

var (
	// ErrSlots is wrapped by errors about an in-flight limit where nothing would release the slot. They also wrap
	// slidegate.ErrUnsupported.
	ErrSlots error = slotsError{}
	// ErrSlotLost is wrapped by the Err of a Verdict that RenewSlots reports: a slot was not renewed within its time to
	// live, so another request may have taken it. Decision reports whether another one could be taken.
	ErrSlotLost = errors.New("the slot of an in-flight limit was lost")
)

// slotsError is the type of ErrSlots. It is an ErrUnsupported without its text, which would blame the store.
type slotsError struct{}

func (slotsError) Error() string { return "nothing here releases the slot of an in-flight limit" }

func (slotsError) Unwrap() error { return slidegate.ErrUnsupported }

// isSlots reports whether a limit is an in-flight limit.
func isSlots(limit *store.Limit) bool { return limit.Rule().Algorithm == rule.InFlight }

// isRate reports whether a limit is not an in-flight limit.
func isRate(limit *store.Limit) bool { return !isSlots(limit) }

// checkSlots returns an error if an op takes slots of these rules that nothing releases.
func (p *compiled) checkSlots(op rule.Op, r *rules, slots Slots) error {
	switch {
	case !r.slots || op == rule.Peek || op == rule.GiveBack || op == rule.Reset:
		return nil
	case slots == SlotsNone:
		return fmt.Errorf("policy %q: %w; use it where requests run, as in a middleware, or acquire and release", p.name, ErrSlots)
	case op != rule.Take:
		return fmt.Errorf("policy %q: %w: it has an in-flight limit, whose slots can only be taken one at a time", p.name, slidegate.ErrUnsupported)
	}
	return nil
}

// candidateError returns why the policy's candidate cannot be decided, or nil.
func (p *compiled) candidateError(op rule.Op, slots Slots) error {
	if slots == SlotsReserved {
		slots = SlotsNone
	}
	return p.checkSlots(op, p.candidate, slots)
}

// reservationID returns the number of the request's reservation, whose ID is chosen at the first call.
func (r *Request) reservationID() rule.ID {
	if r.id == "" {
		r.id = rand.Text()
	}
	return store.IDOf(r.id)
}

// HoldsSlots reports whether the request is admitted and holds slots.
func (r *Request) HoldsSlots() bool { return r.admitted && r.anyTaken((*heldCharge).renewable) }

// holdsSlots reports whether there are slots to release.
func (r *Request) holdsSlots() bool {
	return r.anyTaken(func(one *heldCharge) bool { return one.slot && !one.done })
}

// Finish ends an admitted request whose work has ended: it settles what it took, as Settle does, releases its slots and
// recycles its memory, as End does. Actual may be nil if no part has Hold. Failed is called with an error, if there is
// one; it may be nil.
//
// Where slots are released in a store with round trips, Finish does not wait for that: failed may be called later, on
// another goroutine. Waiting would delay the client's response, the last part of which is sent when the handler has
// returned. Nothing is lost by that: Drain waits for the releases under way when the program ends, and a request that
// finds no slot waits for those of its key that this process is about to release. Without slots, or with a store in this
// process, everything is done when Finish returns, unless the store fails: where the outcome is unknown, Finish sends a
// settlement or a release again a few times, on another goroutine, as long as the store can tell that it is a repetition.
func (r *Request) Finish(ctx context.Context, actual func(policy int, cost int64) int64, failed func(error)) {
	var err error
	defer func() { // also if actual panics
		now := !r.holdsSlots() || r.set.traits[r.mode].RoundTrips == 0
		if now {
			r.stopRenewals()
		}
		r.settle(ctx, everything, now, func(unsettled error) {
			r.recycle()
			if err = errors.Join(err, unsettled); err != nil && failed != nil {
				failed(err)
			}
		})
	}()
	if actual != nil {
		err = r.collectActual(actual)
	}
}

// stopRenewals stops the renewals of slots, if there are any.
func (r *Request) stopRenewals() {
	if r.keeper != nil {
		r.keeper.stop()
	}
}

// releases are the settlements and releases of slots under way on other goroutines, by key.
type releases struct {
	mu    sync.Mutex
	byKey map[string][]chan struct{} // closed when the release is done
}

// begin records a release for these keys. The returned function must be called when it is done.
func (all *releases) begin(keys []string) (ended func()) {
	done := make(chan struct{})
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byKey == nil {
		all.byKey = map[string][]chan struct{}{}
	}
	for _, key := range keys {
		all.byKey[key] = append(all.byKey[key], done)
	}
	return func() {
		close(done)
		all.mu.Lock()
		defer all.mu.Unlock()
		for _, key := range keys {
			rest := slices.DeleteFunc(all.byKey[key], func(other chan struct{}) bool { return other == done })
			if all.byKey[key] = rest; len(rest) == 0 {
				delete(all.byKey, key)
			}
		}
	}
}

// underway returns the releases of a key.
func (all *releases) underway(key string) []chan struct{} {
	all.mu.Lock()
	defer all.mu.Unlock()
	return slices.Clone(all.byKey[key])
}

// anyUnderway returns a release under way, or nil if there is none.
func (all *releases) anyUnderway() chan struct{} {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, some := range all.byKey {
		return some[0]
	}
	return nil
}

// Drain waits until all releases of slots and all settlements that Finish has begun are done, and what was taken for
// clients that have left is cancelled, or until ctx ends: for a program that is about to end. That includes the releases
// of the Sets that this one has replaced. Slots that are not released expire after their time to live. It also charges what this Set has admitted in the mode Optimistic, which from then on admits
// nothing without the store.
func (s *Set) Drain(ctx context.Context) error {
	for done := s.releases.anyUnderway(); done != nil; done = s.releases.anyUnderway() {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("policy: slots are still being released, or costs settled: %w", ctx.Err())
		}
	}
	var errs []error
	for _, layer := range s.owing {
		if err := layer.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("policy: %w", err))
		}
	}
	return errors.Join(errs...)
}

// slotPatience is how long a request waits for slots that are about to be released: many times the latency of a store,
// and less than a client notices.
const slotPatience = 200 * time.Millisecond

// awaitSlots calls the store once more if only in-flight limits denied the request while this process was releasing
// slots of its key. A client that sends its next request as soon as it has the last response must find the slot free.
func (r *Request) awaitSlots(ctx context.Context) {
	if !r.takes || !slices.ContainsFunc(r.parts, func(it part) bool { return it.decides() && it.request == 0 }) {
		return
	}
	live := &r.batch.requests[0]
	key, only := slotRefusal(live)
	if !only {
		return
	}
	underway := r.set.releases.underway(key)
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
	live.Err = nil
	cancelled, err := store.Reserve(ctx, r.set.stores[r.mode], r.batch.requests[:1])
	if err != nil && live.Err == nil {
		live.Err = err
	}
	r.awaitCancelled(cancelled)
}

// awaitCancelled makes Drain wait until what was taken for a client that has left is cancelled. Cancelled is nil if the
// client is still there.
func (r *Request) awaitCancelled(cancelled <-chan struct{}) {
	if cancelled == nil {
		return
	}
	var keys []string
	for i := range r.parts {
		keys = append(keys, r.parts[i].Key)
	}
	ended := r.set.releases.begin(slices.Compact(keys))
	go func() {
		<-cancelled
		ended()
	}()
}

// slotRefusal reports whether only in-flight limits denied a request, and the key of the first.
func slotRefusal(result *store.Request) (key string, only bool) {
	if result.Err != nil || result.Op != rule.Take {
		return "", false
	}
	for i := range result.Answers {
		switch a := &result.Answers[i]; {
		case a.Flags.Fallback():
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
