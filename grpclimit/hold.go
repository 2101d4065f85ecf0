package grpclimit

import (
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of what is remembered of servers' answers. Above mostHolds an arbitrary one is forgotten: the server will
// refuse once more and say the same again.
const (
	mostHolds  = 1 << 16
	fewHolds   = 1 << 10 // below this, it is not worth looking for those that have passed
	holdGrowth = 2       // look when there are this many times as many as were left the last time
)

// holder is what a server has told to wait: this key, in calls of this method, on this target. It is not the whole target,
// because servers limit methods differently, and a quota of one must not stop the others.
type holder struct{ target, method, key string }

// holds remember how long servers have told a client to wait.
type holds struct {
	most  time.Duration // that one answer can ask for
	some  atomic.Bool   // there is something in until, so it is worth the lock
	mu    sync.Mutex
	until map[holder]time.Time
	look  int // how many there may be before those that have passed are looked for
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

// learn remembers what a call's error says, if anything.
func (h *holds) learn(who holder, err error) {
	if err == nil {
		return
	}
	if wait, ok := RetryAfter(err); ok && wait > 0 {
		h.remember(who, time.Now().Add(min(wait, h.most)))
	}
}

// remember makes who wait until then. Of two moments the later one counts.
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

// makeRoomLocked keeps until within its bounds before one more is added.
func (h *holds) makeRoomLocked() {
	if len(h.until) >= max(fewHolds, h.look) {
		now := time.Now()
		for who, until := range h.until {
			if !until.After(now) {
				delete(h.until, who)
			}
		}
		h.look = min(mostHolds, holdGrowth*len(h.until))
	}
	for who := range h.until {
		if len(h.until) < mostHolds {
			return
		}
		delete(h.until, who)
	}
}
