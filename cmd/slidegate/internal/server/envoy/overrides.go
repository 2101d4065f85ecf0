package envoy

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// windows are the lengths of windows that limits of descriptors have brought. Each is a shape of limits, for which a store
// keeps something, so whoever writes descriptors must not choose how many there are. It is safe for concurrent use.
type windows struct {
	most int

	mu     sync.Mutex
	known  map[time.Duration]struct{}
	warned time.Time // when it was last logged that there are too many
}

// errWindows is about a limit whose window is one too many.
var errWindows = errors.New("envoy: the descriptors have brought too many different windows")

// admit reports whether a window may be used. Those of one unit always may: there are few of them, and they are what nearly
// all descriptors ask for.
func (w *windows) admit(window time.Duration) bool {
	if slices.ContainsFunc(units, func(u timeUnit) bool { return u.length == window }) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.known[window]; ok {
		return true
	}
	if len(w.known) >= w.most {
		return false
	}
	w.known[window] = struct{}{}
	return true
}

// warn reports whether a refusal is to be logged: one a minute.
func (w *windows) warn(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.warned) < time.Minute {
		return false
	}
	w.warned = now
	return true
}
