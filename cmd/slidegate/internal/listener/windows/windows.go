// Package windows bounds how many different windows clients can bring along with their requests. A store in memory keeps a table
// for each, so the clients that send limits of their own must not determine how many there are, and none may take the place of the
// others. A store on a server needs no such bound.
package windows

import (
	"net"
	"sync"
	"time"
)

// Most is how many windows may be in use at a time: half of what a store in memory has room for by default, since two listeners
// accept limits.
const Most = 2048

// grace is how long a window is in use after it was admitted, if no decision says more.
const grace = time.Minute

// Window is a window of a group of limits, such as a domain.
type Window struct {
	Group  string
	Length time.Duration
}

// Registry knows the windows that are in use: those with keys that still count. It is safe for concurrent use. A nil Registry admits
// every window. Call New for another.
type Registry struct {
	share int // of a connection
	now   func() time.Time

	mu    sync.Mutex
	known map[Window]*entry
	conns map[string]int // windows in use, by the connection that brought them
	hosts map[string]int // and by its host
}

type entry struct {
	conn, host string
	until      time.Time
}

// New returns a Registry in which each connection may have share windows in use, and each host half of what others leave. So there
// is always room for another host, and a client that only reconnects does not get more. A nil now means time.Now.
func New(share int, now func() time.Time) *Registry {
	if now == nil {
		now = time.Now
	}
	return &Registry{share: share, now: now, known: map[Window]*entry{}, conns: map[string]int{}, hosts: map[string]int{}}
}

// Admit reports whether a connection, named by its remote address, may use a window. A window that is already in use may be used by
// all.
func (r *Registry) Admit(conn string, w Window) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if e := r.known[w]; e != nil {
		e.keep(now.Add(grace))
		return true
	}
	host, _, err := net.SplitHostPort(conn)
	if err != nil {
		host = conn
	}
	if !r.hasRoom(conn, host) {
		r.forget(now)
		if !r.hasRoom(conn, host) {
			return false
		}
	}
	r.known[w] = &entry{conn, host, now.Add(grace)}
	r.conns[conn]++
	r.hosts[host]++
	return true
}

func (r *Registry) hasRoom(conn, host string) bool {
	own := r.hosts[host]
	others := len(r.known) - own
	return r.conns[conn] < r.share && own < (Most-others)/2
}

// Keep says that a key of a window counts for this long from now on.
func (r *Registry) Keep(w Window, rest time.Duration) {
	if r == nil || rest <= grace {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.known[w]; e != nil {
		e.keep(r.now().Add(rest))
	}
}

func (e *entry) keep(until time.Time) {
	if until.After(e.until) {
		e.until = until
	}
}

// forget removes the windows in which no key counts any more.
func (r *Registry) forget(now time.Time) {
	for w, e := range r.known {
		if e.until.After(now) {
			continue
		}
		delete(r.known, w)
		if r.conns[e.conn]--; r.conns[e.conn] == 0 {
			delete(r.conns, e.conn)
		}
		if r.hosts[e.host]--; r.hosts[e.host] == 0 {
			delete(r.hosts, e.host)
		}
	}
}
