package envoy

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// windows records the window lengths of limits that came with descriptors. Each is a shape of limits, for which a store
// keeps state, so the senders of descriptors must not determine how many there are. It is safe for concurrent use.
type windows struct {
	max int

	mu     sync.Mutex
	known  map[time.Duration]struct{}
	warned time.Time // when too many windows were last logged
}

// errWindows is the error for a limit whose window would exceed the maximum number of windows.
var errWindows = errors.New("envoy: descriptors have too many different windows")

// admit reports whether a window may be used. Windows of one unit always may: there are few of them, and nearly all
// descriptors use them.
func (w *windows) admit(window time.Duration) bool {
	if slices.ContainsFunc(units, func(u timeUnit) bool { return u.length == window }) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.known[window]; ok {
		return true
	}
	if len(w.known) >= w.max {
		return false
	}
	w.known[window] = struct{}{}
	return true
}

// warn reports whether a denial should be logged: at most one per minute.
func (w *windows) warn(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.warned) < time.Minute {
		return false
	}
	w.warned = now
	return true
}
