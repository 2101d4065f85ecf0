package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// maxIdleWorkers bounds how many workers wait for round trips. Further ones end after their work.
	maxIdleWorkers = 64
	// maxIdleTime is how long unneeded workers wait: a Store has no Close, and must leave no goroutine behind.
	maxIdleTime = 100 * time.Millisecond
)

// workers send round trips for callers whose context can end. They are goroutines that are reused: clients have deep call
// stacks, so a new goroutine per round trip would spend much of its time growing its stack. Those that are not needed for a
// while end.
type workers struct {
	conn     Conn
	mu       sync.Mutex
	idle     []worker // the last one has been idle for the shortest time
	unneeded int      // how many of them have been idle since the last check
	reaping  bool     // a check is scheduled
}

// worker is the channel of a goroutine that sends one round trip at a time. It has capacity for one, so that giving it a
// round trip never blocks.
type worker chan job

// job is a round trip and the context of the client's work on it.
type job struct {
	ctx  context.Context
	trip *roundTrip
}

// send sends a round trip on another goroutine, and returns immediately. The round trip's done receives the value that the client
// panicked with, or nil.
func (ws *workers) send(ctx context.Context, t *roundTrip) {
	w := ws.takeIdle()
	if w == nil {
		w = make(worker, 1)
		go ws.work(w)
	}
	w <- job{ctx, t}
}

// takeIdle returns an idle worker, or nil if there is none.
func (ws *workers) takeIdle() worker {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	last := len(ws.idle) - 1
	if last < 0 {
		return nil
	}
	w := ws.idle[last]
	ws.idle = ws.idle[:last]
	ws.unneeded = min(ws.unneeded, last)
	return w
}

// work sends a worker's round trips until the worker is no longer needed.
func (ws *workers) work(w worker) {
	for j := range w {
		if !ws.sendJob(w, j) {
			return
		}
	}
}

// sendJob sends a round trip and reports whether the worker waits for another. A panic of the client is passed to the caller.
func (ws *workers) sendJob(w worker, j job) (stays bool) {
	returned := false
	defer func() {
		panicked := recover()
		// A client that calls runtime.Goexit ends the worker. The worker is idle before the caller returns, whose
		// next round trip it can send.
		stays = (returned || panicked != nil) && ws.park(w)
		j.trip.done <- panicked
	}()
	j.trip.send(j.ctx, ws.conn)
	returned = true
	return false
}

// park makes a worker idle. It reports whether there is space for it.
func (ws *workers) park(w worker) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.idle) == maxIdleWorkers {
		return false
	}
	ws.idle = append(ws.idle, w)
	if !ws.reaping {
		ws.reaping = true
		time.AfterFunc(maxIdleTime, ws.reap)
	}
	return true
}

// reap ends the workers that have been idle since the last check, and checks again while there are others.
func (ws *workers) reap() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.idle[:ws.unneeded] {
		close(w)
	}
	ws.idle = slices.Delete(ws.idle, 0, ws.unneeded)
	ws.unneeded = len(ws.idle)
	ws.reaping = len(ws.idle) > 0
	if ws.reaping {
		time.AfterFunc(maxIdleTime, ws.reap)
	}
}
