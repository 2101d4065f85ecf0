package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// How often the store is pinged, and how long a ping may take.
const (
	pingEvery   = 500 * time.Millisecond
	pingTimeout = 200 * time.Millisecond
)

// errPingTimeout means that the store did not answer a ping in time.
var errPingTimeout = errors.New("the store did not answer a ping in time")

// readiness tracks whether the store can be reached. It pings the store in the background, so that check returns immediately even
// if the store hangs, and logs changes. It is safe for concurrent use. Use newReadiness to create one.
type readiness struct {
	ping func(context.Context) error
	log  *slog.Logger
	end  context.Context // done when the service stops

	watching sync.WaitGroup
	first    chan struct{} // closed after the first ping

	mu     sync.Mutex
	pinged bool // whether first is closed
	last   error
}

// newReadiness calls ping regularly until end is done; close waits for that.
func newReadiness(end context.Context, ping func(context.Context) error, log *slog.Logger) *readiness {
	r := &readiness{ping: ping, log: log, end: end, first: make(chan struct{})}
	r.watching.Go(r.watch)
	return r
}

// close waits for a ping in progress, after the service has stopped.
func (r *readiness) close() {
	if r != nil {
		r.watching.Wait()
	}
}

// check returns nil if the last ping reached the store. It waits only for the first ping, for at most about pingTimeout.
func (r *readiness) check() error {
	<-r.first
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// watch pings the store until the end, and returns when no ping is in progress.
func (r *readiness) watch() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		result := make(chan error, 1)
		go func() {
			limited, cancel := context.WithTimeout(r.end, pingTimeout)
			defer cancel()
			result <- r.ping(limited)
		}()
		late := time.NewTimer(pingTimeout)
		select {
		case err := <-result:
			r.record(err)
		case <-late.C: // a hanging store is not pinged again until it answers
			r.record(errPingTimeout)
			r.record(<-result)
		}
		late.Stop()
		select {
		case <-r.end.Done():
			return
		case <-tick.C:
		}
	}
}

// record stores the result of a ping, and logs a change.
func (r *readiness) record(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.last
	r.last = err
	if !r.pinged {
		r.pinged = true
		close(r.first)
	}
	switch {
	case r.end.Err() != nil: // the service is stopping, which may be the cause
	case err != nil && before == nil:
		r.log.Warn("not ready: the store cannot be reached", slog.Any("error", err))
	case err == nil && before != nil:
		r.log.Info("ready again: the store can be reached")
	}
}
