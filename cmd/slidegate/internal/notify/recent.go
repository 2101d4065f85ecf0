package notify

import (
	"crypto/sha256"
	"sync"
	"time"
)

const maxRecent = 1 << 14

// recent remembers what was claimed lately, so that a key whose usage goes up and down around a threshold does not call the store each
// time. It may forget. The zero value is ready to use.
type recent struct {
	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
}

// has reports whether a name is claimed, as far as is known.
func (r *recent) has(name [sha256.Size]byte, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.until[name])
}

// add remembers a name. If there are too many, it forgets an arbitrary one.
func (r *recent) add(name [sha256.Size]byte, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = map[[sha256.Size]byte]time.Time{}
	}
	if len(r.until) >= maxRecent {
		for other := range r.until {
			delete(r.until, other)
			break
		}
	}
	r.until[name] = until
}
