package kvstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// maxTries is how often a swap is attempted. Together with Options.Timeout it bounds the work of a decision that keeps meeting
// conflicts.
const maxTries = 256

// errTooLarge is wrapped by errors about requests that would make an entry too large. Nothing was written.
var errTooLarge = errors.New("the entry is too large")

// decideTogether decides requests on one entry, by one swap if possible, and returns what to remember of the entry. An error that
// leaves the outcome of all requests unknown becomes the Err of each.
func (s *Store) decideTogether(name string, known memory, requests []*store.Request) memory {
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Timeout)
	defer cancel()
	err := s.swapIn(ctx, name, &known, requests)
	if errors.Is(err, errTooLarge) && len(requests) > 1 { // one by one, so that only the requests that do not fit fail
		for i, r := range requests {
			if err := s.swapIn(ctx, name, &known, requests[i:i+1]); err != nil {
				r.Err = err
			}
		}
		return known
	}
	if err != nil {
		for _, r := range requests {
			r.Err = err
		}
	}
	return known
}

// swapIn decides requests on an entry and swaps in the result. If another process is faster, it reads the entry again and decides
// again, up to a bound.
func (s *Store) swapIn(ctx context.Context, name string, known *memory, requests []*store.Request) error {
	fromMemory, conflicts := known.current(), 0
	for range maxTries {
		if !fromMemory {
			if err := s.read(ctx, name, known); err != nil {
				return err
			}
		}
		e, err := decodeEntry(known.value)
		if err != nil {
			return err
		}
		e.maxValue = s.traits.MaxValue
		now := s.decideOn(e, requests)
		if !e.changed {
			if !fromMemory {
				return nil
			}
			// Refusals and peeks write nothing, so no swap would find out whether the remembered entry is still current: another
			// process may have refunded units. Read the entry before answering.
			fromMemory = false
			continue
		}
		err = s.write(ctx, name, known, e, now)
		if err == nil {
			known.recordSwap(fromMemory, conflicts)
			return nil
		}
		if known.forget(); !errors.Is(err, ErrOutdated) {
			return err
		}
		if conflicts++; fromMemory { // the conflict may be long past, so retry without a pause
			fromMemory = false
			continue
		}
		if err := pause(ctx, known.roundTrip); err != nil {
			return s.undone("swap", err)
		}
	}
	known.conflicts = maxConflicts
	return store.Fault(fmt.Errorf("kvstore: %s: gave up after %d attempts to change an entry that other processes keep changing; use leases, or "+
		"fewer processes per key", s.traits.Name, maxTries), store.ErrUndone)
}

// read gets an entry from the engine.
func (s *Store) read(ctx context.Context, name string, known *memory) (err error) {
	begin := time.Now()
	if known.value, known.revision, err = s.engine.Get(ctx, name); err != nil {
		known.forget()
		return s.undone("read", err)
	}
	known.roundTrip = time.Since(begin)
	return nil
}

// write swaps in an entry.
func (s *Store) write(ctx context.Context, name string, known *memory, e *entry, now rule.Micros) error {
	value, expires := e.encode(now)
	if len(value) > s.traits.MaxValue {
		return fmt.Errorf("kvstore: %w: it would have %d bytes, and %s takes at most %d; use fewer limits per key, fewer keys per group, "+
			"or smaller quotas", errTooLarge, len(value), s.traits.Name, s.traits.MaxValue)
	}
	keep := min(max(time.Second, (expires-now).Duration()), MaxKeep)
	keep += min(s.opts.Grace, MaxKeep-keep)
	revision, err := s.engine.Swap(ctx, name, value, known.revision, keep)
	if err != nil {
		return s.wrapErr("swap", err)
	}
	known.value, known.revision, known.written = value, revision, revision
	return nil
}

// decideOn decides requests on an entry in their order, and returns the time of the last decision.
func (s *Store) decideOn(e *entry, requests []*store.Request) (now rule.Micros) {
	for _, r := range requests {
		now = s.decisionTime(e)
		r.Err = e.decide(r, now)
	}
	return now
}

// maxBehind is how far a clock may be behind the clock of another process. A clock that is further behind is taken to have been set
// back.
const maxBehind = rule.Micros(time.Second / time.Microsecond)

// decisionTime returns the time at which a request is decided: now, or the time of the entry's last change if this process's clock
// is behind the clock of the process that changed it, so that time does not go backwards for a key.
func (s *Store) decisionTime(e *entry) rule.Micros {
	now := s.now()
	if s.opts.Now == nil && now < e.at && e.at-now <= maxBehind {
		return e.at
	}
	return now
}

// undone returns an error after which nothing was written: swaps before it met conflicts.
func (s *Store) undone(what string, err error) error {
	return store.Fault(s.wrapErr(what, err), store.ErrUndone)
}

func (s *Store) wrapErr(what string, err error) error {
	return fmt.Errorf("kvstore: %s: %s: %w", s.traits.Name, what, err)
}

// pause waits for a random time of up to longest.
func pause(ctx context.Context, longest time.Duration) error {
	timer := time.NewTimer(rand.N(max(1, longest)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
