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
	batch   []store.Request // of all entries, one after the other

	ctx     context.Context
	cancel  context.CancelFunc
	callers int // how many still wait; guarded by the store's mu
}

// carry sends those who wait, call after call, until nobody does. It has a slot, which it gives back.
func (s *Store) carry(age uint64) {
	defer s.end(age) // also when inner ends the goroutine
	for {
		if s.opts.Gather {
			runtime.Gosched() // who is about to ask comes along
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

// next takes the next call out of the queue; nil if nobody waits, or if the slot is not the caller's any more.
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
	if s.queue.first != nil && s.taken < s.opts.InFlight { // they are too many for one call
		s.taken++
		go s.carry(age)
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

// errUnanswered is what every request of a shared call has until the store has set something else.
var errUnanswered = errors.New("coalesce: the store returned without an answer")

// send asks the store, and gives every caller its own.
func (s *Store) send(c *sharedCall) {
	for i := range c.batch {
		c.batch[i].Err = errUnanswered
	}
	returned := false
	defer func() {
		if !returned {
			s.broke(c, recover())
		}
		s.deliver(c)
	}()
	err := s.inner.Apply(c.ctx, c.batch)
	c.settle(err, s.opts.Timeout)
	returned = true
}

// settle hands each entry the errors of its requests.
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

// deliver tells the callers that they are answered. An entry is its caller's again as soon as the word is sent.
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

// watchdog sees to it that calls which do not return keep nobody waiting for ever.
type watchdog struct {
	timer   *time.Timer
	running bool
	moved   bool // since it last looked, a slot was given back or somebody was sent
}

// watchLocked starts the watchdog when somebody begins to wait. It looks once in every Timeout, and stops by itself.
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

// watch gives up the calls under way if somebody waits and nothing has moved since the last look: each of them is then
// older than that, for whatever takes a slot while somebody waits counts as a move.
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
			go s.carry(s.age)
		}
	}
	w.moved = false
	w.timer.Reset(s.opts.Timeout)
}
