package grpclimit

import (
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what is remembered of servers' answers. Above maxHolds an arbitrary entry is forgotten: the server will
// refuse once more with the same answer.
const (
	maxHolds   = 1 << 16
	minSweep   = 1 << 10 // below this, searching for expired holds is not worth it
	holdGrowth = 2       // search when there are this many times as many as were left the last time
)

// holdKey identifies what a server's answer applies to: this key, in calls of this method, on this target. It is not the
// whole target, because servers limit methods differently, and the quota of one must not stop the others.
type holdKey struct{ target, method, key string }

// holds remember how long servers have asked a client to wait.
type holds struct {
	maxWait  time.Duration // the longest wait of one answer
	nonEmpty atomic.Bool   // until is not empty, so it is worth the lock
	mu       sync.Mutex
	until    map[holdKey]time.Time
	sweepAt  int // how many there may be before expired ones are removed
}

// left returns how long calls of id still have to wait; 0 means not at all.
func (h *holds) left(id holdKey) time.Duration {
	if !h.nonEmpty.Load() {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	until, ok := h.until[id]
	if !ok {
		return 0
	}
	left := time.Until(until)
	if left > 0 {
		return left
	}
	delete(h.until, id)
	h.nonEmpty.Store(len(h.until) > 0)
	return 0
}

// record remembers the retry delay of a call's error, if there is one.
func (h *holds) record(id holdKey, err error) {
	if err == nil {
		return
	}
	if wait, ok := RetryAfter(err); ok && wait > 0 {
		h.remember(id, time.Now().Add(min(wait, h.maxWait)))
	}
}

// remember makes calls of id wait until a time. Of two times the later one counts.
func (h *holds) remember(id holdKey, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	earlier, known := h.until[id]
	if known && earlier.After(until) {
		return
	}
	if !known {
		h.makeRoomLocked()
	}
	if h.until == nil {
		h.until = map[holdKey]time.Time{}
	}
	h.until[id] = until
	h.nonEmpty.Store(true)
}

// makeRoomLocked keeps until within its bounds before an entry is added.
func (h *holds) makeRoomLocked() {
	if len(h.until) >= max(minSweep, h.sweepAt) {
		now := time.Now()
		for id, until := range h.until {
			if !until.After(now) {
				delete(h.until, id)
			}
		}
		h.sweepAt = min(maxHolds, holdGrowth*len(h.until))
	}
	for id := range h.until {
		if len(h.until) < maxHolds {
			return
		}
		delete(h.until, id)
	}
}
