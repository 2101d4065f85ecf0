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
	entries []*entry
	batch   []store.Request // of all entries, concatenated

	ctx     context.Context
	cancel  context.CancelFunc
	callers int // callers still waiting; guarded by the store's mu
}

// runCalls sends the waiting requests, call after call, until none is left, and then frees its slot.
func (s *Store) runCalls(age uint64) {
	defer s.end(age) // also when inner ends the goroutine
	for {
		if s.opts.Gather {
			runtime.Gosched() // requests about to be made join this call
		}
		c := s.next(age)
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

// next takes the next call from the queue. It returns nil if no request waits, or if the slot was abandoned.
func (s *Store) next(age uint64) *sharedCall {
	c := s.calls.Get().(*sharedCall)
	c.entries, c.batch = c.entries[:0], c.batch[:0]
	s.mu.Lock()
	requests := 0
	for e := s.queue.first; age == s.age && e != nil; e = s.queue.first {
		if requests += len(e.requests); requests > s.opts.MaxBatch && len(c.entries) > 0 {
			break
		}
		s.queue.remove(e)
		e.call = c
		c.entries = append(c.entries, e)
	}
	if len(c.entries) == 0 {
		s.mu.Unlock()
		s.calls.Put(c)
		return nil
	}
	if s.queue.first != nil && s.taken < s.opts.InFlight { // too many for one call
		s.taken++
		go s.runCalls(age)
	}
	s.watchdog.moved = true
	s.crowded = s.opts.Gather && (len(c.entries) > 1 || s.queue.first != nil)
	c.callers = len(c.entries)
	c.ctx, c.cancel = context.WithTimeout(context.Background(), s.opts.Timeout)
	s.mu.Unlock()
	for _, e := range c.entries {
		c.batch = append(c.batch, e.requests...)
	}
	return c
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

// watchdog keeps calls that do not return from blocking the queue forever.
type watchdog struct {
	timer   *time.Timer
	running bool
	moved   bool // since the last check, a slot was freed or a request was sent
}

// watchLocked starts the watchdog when a request begins to wait. It checks once per Timeout, and stops when no request
// waits.
func (s *Store) watchLocked() {
	w := &s.watchdog
	if w.running {
		return
	}
	w.running, w.moved = true, false
	if w.timer == nil {
		w.timer = time.AfterFunc(s.opts.Timeout, s.watch)
	} else {
		w.timer.Reset(s.opts.Timeout)
	}
}

// watch abandons the calls under way if a request waits and nothing has moved since the last check. Each of those calls
// is then older than the last check, because taking a slot while a request waits counts as a move.
func (s *Store) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.watchdog
	if s.queue.first == nil {
		w.running = false
		return
	}
	if !w.moved {
		s.age++
		s.taken = s.opts.InFlight
		for range s.opts.InFlight {
			go s.runCalls(s.age)
		}
	}
	w.moved = false
	w.timer.Reset(s.opts.Timeout)
}
