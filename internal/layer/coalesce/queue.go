package coalesce

import (
	"context"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/workload"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// entry holds the requests of one caller in a shared call. It is a copy, because the caller may leave while the store
// still works on it. It belongs to its caller, or to the call once the caller has left.
type entry struct {
	requests  []store.Request
	charges   []store.Charge // of all requests, concatenated
	answers   []rule.Answer  // of all requests, concatenated
	addresses []uint64       // hashes of the addresses of all requests, each once

	heavy, large bool // see weigh

	done     chan struct{} // has capacity for the one signal that the entry is answered
	panicked *Panic        // set if the caller has to panic

	// Guarded by the store's mu.
	places         []place     // in the lines of its addresses
	turns          int         // in how many of them it is first, while the address is not in flight; if in all, it is ready
	previous, next *entry      // in the list of those that are ready
	call           *sharedCall // the call it was sent with; nil while it is in the queue
	answered       bool        // the signal is on its way, so the caller can no longer leave
	left           bool        // the caller has left, and the call recycles the entry
}

// lightWork is how much work a request may be that is not heavy. A log of 1,000 units is 5.
const lightWork = 8

// weigh reports whether a batch has so much work per request that few like it may be under way at a time, and whether it is
// large: heavy, or more than goes into a call. Large ones have a list of their own, so that others do not wait behind many
// of them.
func (s *Store) weigh(batch []store.Request) (heavy, large bool) {
	work := workOf(batch, nil)
	heavy = work > lightWork*len(batch)
	return heavy, heavy || work > s.opts.MaxBatch
}

// workOf returns the work of a batch that comes after the request last, or of one that comes first if that is nil.
func workOf(batch []store.Request, last *store.Request) (work int) {
	for i := range batch {
		work += workload.Of(&batch[i], last)
		last = &batch[i]
	}
	return work
}

// readyFor returns the list for e once it is ready.
func (s *Store) readyFor(e *entry) *readyList {
	if e.large {
		return &s.ready[1]
	}
	return &s.ready[0]
}

// Capacity up to which entries and calls are kept for reuse; larger ones are left to the garbage collector.
const (
	keptRequests = 1024
	keptCharges  = 4096
)

// copyBatch fills e with a copy of a caller's requests, with the same number of answers.
func (e *entry) copyBatch(batch []store.Request) {
	e.addresses = appendAddresses(e.addresses[:0], batch)
	charges, answers := 0, 0
	for i := range batch {
		charges += len(batch[i].Charges)
		answers += len(batch[i].Answers)
	}
	e.requests = slices.Grow(e.requests[:0], len(batch))
	e.charges = slices.Grow(e.charges[:0], charges)
	e.answers = slices.Grow(e.answers[:0], answers)[:answers]
	clear(e.answers)
	answers = 0
	for i := range batch {
		from := &batch[i]
		start, end := len(e.charges), len(e.charges)+len(from.Charges)
		e.charges = append(e.charges, from.Charges...)
		own := e.answers[answers : answers+len(from.Answers) : answers+len(from.Answers)]
		answers += len(own)
		e.requests = append(e.requests, store.Request{
			Op: from.Op, Group: from.Group, ID: from.ID, Hold: from.Hold, Once: from.Once, Charges: e.charges[start:end:end], Answers: own,
		})
	}
}

// copyOne fills e with a request of a single charge.
func (e *entry) copyOne(limit *store.Limit, key string, cost int64) {
	e.addresses = append(e.addresses[:0], limit.Hash("", key))
	e.charges = append(e.charges[:0], store.Charge{Limit: limit, Key: key, Cost: cost})
	e.answers = append(e.answers[:0], rule.Answer{})
	e.requests = append(e.requests[:0], store.Request{Op: rule.Take, Charges: e.charges, Answers: e.answers})
}

// copyAnswers copies the answers to the caller's batch and returns the first error.
func (e *entry) copyAnswers(batch []store.Request) error {
	for i := range batch {
		from, to := &e.requests[i], &batch[i]
		if to.Err = from.Err; to.Err == nil {
			copy(to.Answers, from.Answers[:min(len(from.Answers), len(from.Charges))])
		}
	}
	return batches.FirstError(batch)
}

// recycle puts an entry back into the pool, without the caller's keys.
func (s *Store) recycle(e *entry) {
	if cap(e.requests) > keptRequests || cap(e.charges) > keptCharges {
		return
	}
	clear(e.requests)
	clear(e.charges)
	e.panicked, e.call, e.answered, e.left = nil, nil, false, false
	s.entries.Put(e)
}

// readyList holds the entries that can be sent now. The zero value is an empty list.
type readyList struct{ first, last *entry }

// add adds e at the end, or at the beginning.
func (q *readyList) add(e *entry, first bool) {
	if first {
		e.next = q.first
	} else {
		e.previous = q.last
	}
	if e.previous == nil {
		q.first = e
	} else {
		e.previous.next = e
	}
	if e.next == nil {
		q.last = e
	} else {
		e.next.previous = e
	}
}

// remove removes e from any position.
func (q *readyList) remove(e *entry) {
	if e.previous == nil {
		q.first = e.next
	} else {
		e.previous.next = e.next
	}
	if e.next == nil {
		q.last = e.previous
	} else {
		e.next.previous = e.previous
	}
	e.previous, e.next = nil, nil
}

// join puts e into the queue, unless it can now be sent alone: then it returns a slot, as begin does. If e can be sent and
// a slot is free, join starts a call for e and the entries that follow. After an error e has been recycled.
func (s *Store) join(ctx context.Context, e *entry) (alone *flight, err error) {
	if err := ctx.Err(); err != nil {
		s.recycle(e)
		return nil, notSentError(err)
	}
	e.heavy, e.large = s.weigh(e.requests)
	s.mu.Lock()
	defer s.mu.Unlock()
	full := s.isFull(len(e.requests))
	free := len(s.flights) < s.opts.InFlight && s.mayWeigh(nil, e.heavy) && !s.isHeld(e.addresses)
	if free && s.alone && (!s.crowded || full) {
		return s.flyAlone(e.addresses, e.heavy), nil
	}
	if full && !free {
		n := len(e.requests)
		s.recycle(e)
		err := fmt.Errorf("%w: %d are waiting, and MaxQueue leaves no space for %d more", ErrFull, s.waiting, n)
		return nil, store.Fault(err, store.ErrBusy, store.ErrUndone)
	}
	s.lineUp(e)
	s.startCalls()
	s.watchLocked()
	return nil, nil
}

// isFull reports whether the queue has no space for n requests of one caller.
func (s *Store) isFull(n int) bool {
	most := s.opts.MaxQueue
	if n > 1 {
		most -= most / 8
	}
	return s.waiting > 0 && s.waiting+n > most
}

// await waits until e is answered or the context ends. After an error e no longer belongs to the caller.
func (s *Store) await(ctx context.Context, e *entry) error {
	select {
	case <-e.done:
	case <-ctx.Done():
		if err := s.leave(ctx, e); err != nil {
			return err
		}
	}
	if p := e.panicked; p != nil {
		s.recycle(e)
		panic(p)
	}
	return nil
}

// leave stops waiting for e, unless it has been answered by now: an answer is preferred to an error.
func (s *Store) leave(ctx context.Context, e *entry) error {
	s.mu.Lock()
	switch {
	case e.answered:
		s.mu.Unlock()
		<-e.done
		return nil
	case e.call == nil:
		s.stepOut(e)
		s.startCalls()
		s.mu.Unlock()
		s.recycle(e)
		return notSentError(ctx.Err())
	}
	e.left = true
	s.mu.Unlock()
	return fmt.Errorf("coalesce: the context ended before the store answered: %w", ctx.Err())
}

func notSentError(err error) error {
	err = fmt.Errorf("coalesce: the context ended before the request was sent, nothing is charged: %w", err)
	return store.Fault(err, store.ErrUndone)
}
