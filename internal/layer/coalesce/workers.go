package coalesce

import "time"

// maxIdleTime is how long goroutines for shared calls wait for the next call, up to twice: a Store has no Close, and must leave no
// goroutine behind.
const maxIdleTime = 100 * time.Millisecond

// workers are goroutines that make shared calls. If every call is a shared one, they wait for the next call: clients of stores
// need deep stacks, and a new goroutine per call would spend more time growing its own than all else here takes. Otherwise
// they end with their work: one caller alone needs none, and in a testing/synctest bubble none may be left. All fields are
// guarded by the store's mu.
type workers struct {
	idle   []chan *flight
	reaper *time.Timer
	armed  bool // the reaper's timer runs
	used   bool // since it was armed
}

// startLocked has the calls of f made on another goroutine.
func (s *Store) startLocked(f *flight) {
	s.workers.used = true
	last := len(s.workers.idle) - 1
	if last < 0 {
		go s.work(f)
		return
	}
	s.workers.idle[last] <- f // has capacity for it
	s.workers.idle = s.workers.idle[:last]
}

// work makes calls until it is no longer needed, or inner ends the goroutine.
func (s *Store) work(f *flight) {
	growStack(s.opts.InFlight)
	next := make(chan *flight, 1)
	for ; f != nil; f = <-next {
		if s.runCalls(f); s.alone {
			return
		}
		s.park(next)
	}
}

// park makes a worker idle: it gets its next slot through the channel, or nil.
func (s *Store) park(next chan *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ws := &s.workers
	ws.idle = append(ws.idle, next)
	if ws.armed {
		return
	}
	ws.armed = true
	if ws.reaper == nil {
		ws.reaper = time.AfterFunc(maxIdleTime, s.reap)
	} else {
		ws.reaper.Reset(maxIdleTime)
	}
}

// reap ends the idle workers if none was used since the last time.
func (s *Store) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ws := &s.workers
	if ws.used {
		ws.used = false
		ws.reaper.Reset(maxIdleTime)
		return
	}
	ws.armed = false
	for _, next := range ws.idle {
		close(next)
	}
	clear(ws.idle)
	ws.idle = ws.idle[:0]
}
