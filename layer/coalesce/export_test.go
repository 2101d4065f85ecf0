package coalesce

import (
	"runtime"
	"sync/atomic"
)

// ErrUnanswered is errUnanswered.
var ErrUnanswered = errUnanswered

// Crowd takes all slots and frees them as soon as a request waits, so that the next request has to share a call. It
// returns a function that frees them in any case.
func (s *Store) Crowd() (end func()) {
	var ages []uint64
	for s.Slots() < s.opts.InFlight {
		ages = append(ages, s.takeSlot())
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() && s.Waiting() == 0 {
			runtime.Gosched()
		}
		for _, age := range ages {
			s.end(age)
		}
	}()
	return func() {
		stop.Store(true)
		<-done
	}
}

// takeSlot takes a slot unconditionally.
func (s *Store) takeSlot() (age uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
	return s.age
}

// Waiting returns how many requests are in the queue.
func (s *Store) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.requests
}

// Slots returns how many slots are taken.
func (s *Store) Slots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
