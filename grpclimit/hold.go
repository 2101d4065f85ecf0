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
	fewHolds   = 1 << 10 // below this, searching for expired holds is not worth it
	holdGrowth = 2       // search when there are this many times as many as were left the last time
)

// holder identifies what a server's answer applies to: this key, in calls of this method, on this target. It is not the
// whole target, because servers limit methods differently, and the quota of one must not stop the others.
type holder struct{ target, method, key string }

// holds remember how long servers have asked a client to wait.
type holds struct {
	maxWait time.Duration // the longest wait of one answer
	some    atomic.Bool   // until is not empty, so it is worth the lock
	mu      sync.Mutex
	until   map[holder]time.Time
	look    int // how many there may be before expired ones are removed
}

// left returns how long who still has to wait; 0 means not at all.
func (h *holds) left(who holder) time.Duration {
	if !h.some.Load() {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	until, ok := h.until[who]
	if !ok {
		return 0
	}
	left := time.Until(until)
	if left > 0 {
		return left
	}
	delete(h.until, who)
	h.some.Store(len(h.until) > 0)
	return 0
}

// learn remembers the retry delay of a call's error, if there is one.
func (h *holds) learn(who holder, err error) {
	if err == nil {
		return
	}
	if wait, ok := RetryAfter(err); ok && wait > 0 {
		h.remember(who, time.Now().Add(min(wait, h.maxWait)))
	}
}

// remember makes who wait until then. Of two times the later one counts.
func (h *holds) remember(who holder, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	earlier, known := h.until[who]
	if known && earlier.After(until) {
		return
	}
	if !known {
		h.makeRoomLocked()
	}
	if h.until == nil {
		h.until = map[holder]time.Time{}
	}
	h.until[who] = until
	h.some.Store(true)
}

// makeRoomLocked keeps until within its bounds before an entry is added.
func (h *holds) makeRoomLocked() {
	if len(h.until) >= max(fewHolds, h.look) {
		now := time.Now()
		for who, until := range h.until {
			if !until.After(now) {
				delete(h.until, who)
			}
		}
		h.look = min(maxHolds, holdGrowth*len(h.until))
	}
	for who := range h.until {
		if len(h.until) < maxHolds {
			return
		}
		delete(h.until, who)
	}
}
