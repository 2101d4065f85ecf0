package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// How often the store is asked for a sign of life, and how long it may take.
const (
	pingEvery   = 500 * time.Millisecond
	pingTimeout = 200 * time.Millisecond
)

// errSilent means that the store gave no sign of life in time.
var errSilent = errors.New("the store gave no sign of life in time")

// readiness knows whether the store can be reached. It asks in the background, so that those who want to know are answered at once even if
// the store hangs, and logs when the answer changes. It is safe for concurrent use. newReadiness makes it.
type readiness struct {
	ping func(context.Context) error
	log  *slog.Logger
	end  context.Context // of the service

	watching sync.WaitGroup
	first    chan struct{} // closed when there is an answer

	mu   sync.Mutex
	told bool // first is closed
	last error
}

// newReadiness asks by ping until end ends; close waits for that.
func newReadiness(end context.Context, ping func(context.Context) error, log *slog.Logger) *readiness {
	r := &readiness{ping: ping, log: log, end: end, first: make(chan struct{})}
	r.watching.Go(r.watch)
	return r
}

// close waits for a question that is under way, once the service has ended.
func (r *readiness) close() {
	if r != nil {
		r.watching.Wait()
	}
}

// check returns nil if the store could be reached when it was last asked. Only before the first answer it waits, for no longer than
// pingTimeout or so.
func (r *readiness) check() error {
	<-r.first
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// watch asks the store again and again until the end, and returns when no question is under way any more.
func (r *readiness) watch() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		answered := make(chan error, 1)
		go func() {
			limited, cancel := context.WithTimeout(r.end, pingTimeout)
			defer cancel()
			answered <- r.ping(limited)
		}()
		late := time.NewTimer(pingTimeout)
		select {
		case err := <-answered:
			r.learn(err)
		case <-late.C: // a store that does not answer is not asked again meanwhile
			r.learn(errSilent)
			r.learn(<-answered)
		}
		late.Stop()
		select {
		case <-r.end.Done():
			return
		case <-tick.C:
		}
	}
}

// learn logs what has changed.
func (r *readiness) learn(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.last
	r.last = err
	if !r.told {
		r.told = true
		close(r.first)
	}
	switch {
	case r.end.Err() != nil: // it is about to end, and that is why
	case err != nil && before == nil:
		r.log.Warn("not ready: the store cannot be reached", slog.Any("error", err))
	case err == nil && before != nil:
		r.log.Info("ready again: the store can be reached")
	}
}
