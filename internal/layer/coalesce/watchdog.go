package coalesce

import "time"

// longTick is the time between two ticks of a watchdog, unless Timeout is shorter. A call is old after two ticks: 5 to 10
// milliseconds, which is more than a store in the same network takes, and leaves a request most of a deadline of 100.
const longTick = 5 * time.Millisecond

// watchdog tells how long calls have been under way, in ticks, without reading a clock for each. It ticks only while requests
// wait, so a call may be older than that.
type watchdog struct {
	timer   *time.Timer
	running bool
	tick    uint64 // counts its checks
	every   time.Duration
	most    uint64 // ticks after which a call is abandoned
}

func (w *watchdog) init(timeout time.Duration) {
	w.every = min(timeout, longTick)
	w.most = uint64((timeout + w.every - 1) / w.every)
}

// watchLocked starts the watchdog when a request begins to wait. It stops when no request waits.
func (s *Store) watchLocked() {
	w := &s.watchdog
	if w.running {
		return
	}
	w.running = true
	w.tick++
	if w.timer == nil {
		w.timer = time.AfterFunc(w.every, s.watch)
	} else {
		w.timer.Reset(w.every)
	}
}

// watch abandons the calls that are older than Timeout, so that they do not block their addresses and slots forever, and starts
// a call if requests could be sent and all calls under way are old.
func (s *Store) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.watchdog
	if s.waiting == 0 {
		w.running = false
		return
	}
	for i := len(s.flights) - 1; i >= 0; i-- { // freeSlot moves the last one, which was checked
		if f := s.flights[i]; w.tick-f.tick >= w.most {
			f.abandoned = true
			s.collects(f)
			s.land(f, true)
			s.freeSlot(f)
		}
	}
	w.tick++
	s.startCalls()
	w.timer.Reset(w.every)
}
