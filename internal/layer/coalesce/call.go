package coalesce

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/slidegate/slidegate/store"
)

// sharedCall is one call to the store for several callers.
type sharedCall struct {
	flight  *flight
	entries []*entry
	batch   []store.Request // of all entries, concatenated

	ctx    context.Context
	cancel context.CancelFunc
}

// startCalls starts a call if requests are ready and a slot is free, unless one that is about to be assembled takes them.
func (s *Store) startCalls() {
	if s.collecting == 0 && s.choose(nil) != nil {
		f := s.takeSlot()
		s.willCollect(f)
		s.startLocked(f)
	}
}

// maxExtra is by how many calls InFlight is exceeded at most, for round trips that are long. They begin at most every other
// tick of the watchdog, so this is enough for round trips of 80 milliseconds and more, beyond which most callers give up.
const maxExtra = 16

// maxExtraHeavy is the same for calls that are heavy: the store may be slow because of them.
const maxExtraHeavy = 4

// mayStart reports whether a call may start, in the slot own or, if that is nil, in a further one. Half of the slots are left
// to calls that are not heavy.
func (s *Store) mayStart(own *flight, heavy bool) bool {
	return s.areFew(own, false, s.opts.InFlight, maxExtra) && s.mayWeigh(own, heavy)
}

// mayWeigh reports whether there are few enough heavy calls to start another one, if heavy is set.
func (s *Store) mayWeigh(own *flight, heavy bool) bool {
	return !heavy || s.areFew(own, true, max(1, s.opts.InFlight/2), maxExtraHeavy)
}

// areFew reports whether there are few calls other than own, counting all or the heavy ones: fewer than usual, or a few more
// and all of them old. Then the store is far away, and waiting for one to return would take most of a caller's time.
func (s *Store) areFew(own *flight, heavy bool, usual, extra int) bool {
	others, young := 0, false
	for _, f := range s.flights {
		if f != own && (f.heavy || !heavy) {
			others++
			young = young || f.tick+1 >= s.watchdog.tick
		}
	}
	return others < usual || others < usual+extra && !young
}

// choose returns the list from which a call may be assembled, in the slot own or in a further one, or nil. If there is a choice,
// the lists take turns.
func (s *Store) choose(own *flight) *readyList {
	small, large := &s.ready[0], &s.ready[1]
	maySmall := small.first != nil && s.mayStart(own, false)
	switch {
	case large.first != nil && (!maySmall || !s.lastLarge) && s.mayStart(own, large.first.heavy):
		return large
	case maySmall:
		return small
	}
	return nil
}

// willCollect notes that f is about to take what is ready.
func (s *Store) willCollect(f *flight) {
	if !f.collecting {
		f.collecting = true
		s.collecting++
	}
}

// collects notes that f takes what is ready, or has ended.
func (s *Store) collects(f *flight) {
	if f.collecting {
		f.collecting = false
		s.collecting--
	}
}

// runCalls sends the requests that are ready, call after call, until none is left, and then frees its slot.
func (s *Store) runCalls(f *flight) {
	defer s.end(context.Background(), f) // also when inner ends the goroutine
	for {
		if s.opts.Gather {
			runtime.Gosched() // requests about to be made join this call
		}
		c := s.next(f)
		if c == nil {
			return
		}
		s.send(c)
		clear(c.entries)
		clear(c.batch)
		if cap(c.batch) <= keptRequests {
			s.calls.Put(c)
		}
	}
}

// growStack makes the stack of a new goroutine as large as clients of stores need, at once: growing it step by step in the middle of a
// call copies deep stacks several times.
//
//go:noinline
func growStack(i int) byte {
	var space [12 << 10]byte
	return space[i%len(space)]
}

// next assembles the next call. It returns nil if no request is ready, if the slot was abandoned, or if it is no longer needed
// because other calls have become short.
func (s *Store) next(f *flight) *sharedCall {
	c := s.calls.Get().(*sharedCall)
	c.flight, c.entries, c.batch = f, c.entries[:0], c.batch[:0]
	s.mu.Lock()
	s.collects(f)
	if f.abandoned || !s.collect(c) {
		s.mu.Unlock()
		s.calls.Put(c)
		return nil
	}
	s.takeOff(f)
	s.crowded = s.opts.Gather && (len(c.entries) > 1 || s.ready[0].first != nil || s.ready[1].first != nil)
	s.startCalls() // if there are too many for one call
	c.ctx, c.cancel = context.WithTimeout(context.Background(), s.opts.Timeout)
	s.mu.Unlock()
	for _, e := range c.entries {
		c.batch = append(c.batch, e.requests...)
	}
	return c
}

// collect takes entries that are ready into the call, as much work as goes into one. It reports whether there are any.
func (s *Store) collect(c *sharedCall) bool {
	list := s.choose(c.flight)
	if list == nil {
		return false
	}
	work, late, heavy := 0, false, list.first.heavy
	var last *store.Request
	for e := list.first; e != nil; e = list.first {
		if work += workOf(e.requests, last); last == nil {
			late = e.isLate()
		} else if work > s.opts.MaxBatch || e.heavy != heavy || !e.fits(late) {
			break
		}
		s.claim(c.flight, e)
		e.call = c
		c.entries = append(c.entries, e)
		last = &e.requests[len(e.requests)-1]
	}
	c.flight.heavy, s.lastLarge = heavy, list == &s.ready[1]
	return true
}

// errUnanswered is the error of every request of a shared call until the store sets another result.
var errUnanswered = errors.New("coalesce: the store returned without an answer")

// send calls the store and gives each caller its results.
func (s *Store) send(c *sharedCall) {
	for i := range c.batch {
		c.batch[i].Err = errUnanswered
	}
	returned := false
	defer func() {
		if !returned {
			s.failCall(c, recover())
		}
		s.deliver(c)
	}()
	err := s.inner.Apply(c.ctx, c.batch)
	c.settle(err, s.opts.Timeout)
	returned = true
}

// settle copies to each entry the errors of its requests.
func (c *sharedCall) settle(failed error, timeout time.Duration) {
	i := 0
	for _, e := range c.entries {
		for j := range e.requests {
			err := c.batch[i].Err
			if err == errUnanswered && failed != nil {
				err = failed
			}
			if err != nil && c.ctx.Err() != nil && errors.Is(err, c.ctx.Err()) {
				err = fmt.Errorf("coalesce: the store did not answer within Timeout, %v: %w", timeout, err)
			}
			e.requests[j].Err = err
			i++
		}
	}
}

// deliver wakes the callers. An entry belongs to its caller again as soon as its caller is woken.
func (s *Store) deliver(c *sharedCall) {
	s.mu.Lock()
	for _, e := range c.entries {
		e.answered = true
	}
	if !c.flight.abandoned {
		s.land(c.flight, c.ctx.Err() != nil)
		s.willCollect(c.flight)
	}
	s.mu.Unlock()
	c.cancel()
	for _, e := range c.entries {
		if e.left {
			s.recycle(e)
		} else {
			e.done <- struct{}{}
		}
	}
}
