package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// maxIdleCouriers bounds how many couriers wait for trips. Further ones end with their trip.
	maxIdleCouriers = 64
	// maxIdleTime is how long more couriers wait than were needed: a Store has no Close, and leaves no goroutine behind.
	maxIdleTime = 100 * time.Millisecond
)

// couriers send trips for callers whose context can end. They are goroutines that stay for further trips: clients call
// deeply, so a new goroutine per trip would spend much of its time on a larger stack. Those that are not needed for a while
// end.
type couriers struct {
	conn     Conn
	mu       sync.Mutex
	idle     []courier // the last one has been idle for the shortest time
	unneeded int       // how many of them have been idle since thin last looked
	thinning bool      // thin will look
}

// courier is where a goroutine that sends one trip at a time gets them. It has room for one, so that giving it a trip never
// blocks.
type courier chan errand

// errand is a trip and the context of the client's work on it.
type errand struct {
	ctx  context.Context
	trip *trip
}

// send has a courier send a trip, and returns at once. The trip's done receives what the client panicked with, or nil.
func (cs *couriers) send(ctx context.Context, t *trip) {
	c := cs.hire()
	if c == nil {
		c = make(courier, 1)
		go cs.work(c)
	}
	c <- errand{ctx, t}
}

// hire returns an idle courier, or nil if there is none.
func (cs *couriers) hire() courier {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	last := len(cs.idle) - 1
	if last < 0 {
		return nil
	}
	c := cs.idle[last]
	cs.idle = cs.idle[:last]
	cs.unneeded = min(cs.unneeded, last)
	return c
}

// work sends a courier's trips until it is not needed.
func (cs *couriers) work(c courier) {
	for e := range c {
		if !cs.carry(c, e) {
			return
		}
	}
}

// carry sends a trip and reports whether the courier stays for another. What the client panics with is the caller's to recover
// from.
func (cs *couriers) carry(c courier, e errand) (stays bool) {
	returned := false
	defer func() {
		panicked := recover()
		// A client that calls runtime.Goexit ends the courier. It is idle before the caller knows, whose next trip it can send.
		stays = (returned || panicked != nil) && cs.rest(c)
		e.trip.done <- panicked
	}()
	e.trip.send(e.ctx, cs.conn)
	returned = true
	return false
}

// rest makes a courier idle. It reports whether there is a place for it.
func (cs *couriers) rest(c courier) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.idle) == maxIdleCouriers {
		return false
	}
	cs.idle = append(cs.idle, c)
	if !cs.thinning {
		cs.thinning = true
		time.AfterFunc(maxIdleTime, cs.thin)
	}
	return true
}

// thin ends the couriers that have been idle since it last looked, and looks again while there are others.
func (cs *couriers) thin() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.idle[:cs.unneeded] {
		close(c)
	}
	cs.idle = slices.Delete(cs.idle, 0, cs.unneeded)
	cs.unneeded = len(cs.idle)
	cs.thinning = len(cs.idle) > 0
	if cs.thinning {
		time.AfterFunc(maxIdleTime, cs.thin)
	}
}
