package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// How long a sign of life of the store may take, and for how long it is believed. Probes wait a
// second or so, and may come as often as they like.
const (
	pingTimeout = 200 * time.Millisecond
	pingFresh   = 500 * time.Millisecond
)

// errSilent means that the store gave no sign of life in time.
var errSilent = errors.New("the store gave no sign of life in time")

// readiness knows whether the store can be reached. It asks when it is asked, one at a time, and logs when the answer changes. It is safe
// for concurrent use.
type readiness struct {
	ping func(context.Context) error
	log  *slog.Logger
	end  context.Context // of the service

	asking sync.WaitGroup

	mu   sync.Mutex
	now  *ping // the last one, which may not be over; nil before the first
	last error // what the last one that was over said
}

// ping is one question to the store.
type ping struct {
	began time.Time
	done  chan struct{}
	err   error // once done
}

// check returns nil if the store can be reached. It takes no longer than pingTimeout.
func (r *readiness) check() error {
	p := r.ask()
	timer := time.NewTimer(time.Until(p.began.Add(pingTimeout)))
	defer timer.Stop()
	select {
	case <-p.done:
		return p.err
	default:
	}
	select {
	case <-p.done:
		return p.err
	case <-timer.C:
		r.learn(errSilent)
		return errSilent
	}
}

// ask returns a question that was asked just now, and asks it if there is none.
func (r *readiness) ask() *ping {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		select {
		case <-r.now.done:
			if time.Since(r.now.began) < pingFresh {
				return r.now
			}
		default: // a store that does not answer is not asked again meanwhile
			return r.now
		}
	}
	p := &ping{began: time.Now(), done: make(chan struct{})}
	r.now = p
	r.asking.Go(func() {
		ctx, cancel := context.WithTimeout(r.end, pingTimeout)
		defer cancel()
		p.err = r.ping(ctx)
		r.learn(p.err)
		close(p.done)
	})
	return p
}

// learn logs what has changed.
func (r *readiness) learn(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.last
	r.last = err
	switch {
	case r.end.Err() != nil: // it is about to end, and that is why
	case err != nil && before == nil:
		r.log.Warn("not ready: the store cannot be reached", slog.Any("error", err))
	case err == nil && before != nil:
		r.log.Info("ready again: the store can be reached")
	}
}

// close waits for a question that is under way, once the service has ended.
func (r *readiness) close() {
	if r != nil {
		r.asking.Wait()
	}
}
