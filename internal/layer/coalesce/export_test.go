package coalesce

import (
	"context"
	"runtime"
	"sync/atomic"
)

// MaxExtra is maxExtra.
const MaxExtra = maxExtra

// ErrUnanswered is errUnanswered.
var ErrUnanswered = errUnanswered

// Crowd takes all slots and frees them as soon as a request waits, so that the next request has to share a call. It
// returns a function that frees them in any case.
func (s *Store) Crowd() (end func()) {
	var taken []*flight
	for s.Slots() < s.opts.InFlight {
		taken = append(taken, s.TakeSlot())
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() && s.Waiting() == 0 {
			runtime.Gosched()
		}
		for _, f := range taken {
			s.end(context.Background(), f)
		}
	}()
	return func() {
		stop.Store(true)
		<-done
	}
}

// TakeSlot takes a slot unconditionally.
func (s *Store) TakeSlot() *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeSlot()
}

// Lines returns how many lines there are.
func (s *Store) Lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

// Waiting returns how many requests are in the queue.
func (s *Store) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// Slots returns how many slots are taken.
func (s *Store) Slots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.flights)
}
