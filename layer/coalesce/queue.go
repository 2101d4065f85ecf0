package coalesce

import (
	"context"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// entry holds the requests of one caller in a shared call. It is a copy, because the caller may leave while the store
// still works on it. It belongs to its caller, or to the call once the caller has left.
type entry struct {
	requests []store.Request
	charges  []store.Charge // of all requests, concatenated
	answers  []rule.Answer  // of all requests, concatenated

	done     chan struct{} // has capacity for the one signal that the entry is answered
	panicked *Panic        // set if the caller has to panic

	// Guarded by the store's mu.
	previous, next *entry      // in the queue
	call           *sharedCall // the call it was sent with; nil while it is in the queue
	answered       bool        // the signal is on its way, so the caller can no longer leave
	left           bool        // the caller has left, and the call recycles the entry
}

// Capacity up to which entries and calls are kept for reuse; larger ones are left to the garbage collector.
const (
	keptRequests = 1024
	keptCharges  = 4096
)

// copyBatch fills e with a copy of a caller's requests, with the same number of answers.
func (e *entry) copyBatch(batch []store.Request) {
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
			Op: from.Op, Group: from.Group, ID: from.ID, Charges: e.charges[start:end:end], Answers: own,
		})
	}
}

// copyOne fills e with a request of a single charge.
func (e *entry) copyOne(limit *store.Limit, key string, cost int64) {
	e.charges = append(e.charges[:0], store.Charge{Limit: limit, Key: key, Cost: cost})
	e.answers = append(e.answers[:0], rule.Answer{})
	e.requests = append(e.requests[:0], store.Request{Op: rule.Take, Charges: e.charges, Answers: e.answers})
}

// copyAnswers copies the answers to the caller's batch and returns the first error.
func (e *entry) copyAnswers(batch []store.Request) error {
	var first error
	for i := range batch {
		from, to := &e.requests[i], &batch[i]
		if to.Err = from.Err; to.Err == nil {
			copy(to.Answers, from.Answers[:min(len(from.Answers), len(from.Charges))])
		} else if first == nil {
			first = to.Err
		}
	}
	return first
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

// queue holds the waiting entries in order of arrival. The zero value is an empty queue.
type queue struct {
	first, last *entry
	requests    int
}

func (q *queue) push(e *entry) {
	e.previous = q.last
	if q.last == nil {
		q.first = e
	} else {
		q.last.next = e
	}
	q.last = e
	q.requests += len(e.requests)
}

// remove removes e from any position.
func (q *queue) remove(e *entry) {
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
	q.requests -= len(e.requests)
}

// join puts e into the queue, unless it can now be sent alone: then the caller has taken a slot, as with begin. If a
// slot is free and the queue was empty, join starts a call for e and the entries that follow. After an error e has been
// recycled.
func (s *Store) join(ctx context.Context, e *entry) (age uint64, alone bool, err error) {
	if err := ctx.Err(); err != nil {
		s.recycle(e)
		return 0, false, notSentError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.taken < s.opts.InFlight
	full := s.queue.first != nil && s.queue.requests+len(e.requests) > s.opts.MaxQueue
	if free && (!s.crowded || full) {
		s.taken++
		return s.age, true, nil
	}
	if full {
		n := len(e.requests)
		s.recycle(e)
		return 0, false, fmt.Errorf("%w: %d are waiting, and MaxQueue leaves no space for %d more", ErrFull, s.queue.requests, n)
	}
	s.queue.push(e)
	if free && s.queue.first == e {
		s.taken++
		go s.runCalls(s.age)
	}
	s.watchLocked()
	return 0, false, nil
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
		s.queue.remove(e)
		s.mu.Unlock()
		s.recycle(e)
		return notSentError(ctx.Err())
	}
	e.left = true
	if e.call.callers--; e.call.callers == 0 {
		e.call.cancel()
	}
	s.mu.Unlock()
	return fmt.Errorf("coalesce: the context ended before the store answered: %w", ctx.Err())
}

func notSentError(err error) error {
	return fmt.Errorf("coalesce: the context ended before the request was sent, nothing is charged: %w", err)
}
