// Package resp serves limits over the Redis protocol, so that the Redis client that a program already has, in any
// language, is a client of the service. It has CL.THROTTLE, as in the module redis-cell, and its own commands (SG.ALLOW,
// SG.PEEK and SG.RESET) for the policies of a gate. What a client can make the server hold is bounded: the size of a command, the
// replies that it does not read, the time that it takes for either, the number of connections. The commands that arrive
// in one read are decided in order and their replies sent in one write.
//
// The server is written by hand. A library for such servers (tidwall/redcon) parses a command from its beginning at each read, bounds
// neither a command nor buffered replies, and sets no deadline for a client that does not read. The error codes after which clients
// retry by themselves (TRYAGAIN, LOADING, CLUSTERDOWN) are not used: a request without a decision may have been charged.
package resp

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

// ErrClosed is returned by Serve after Shutdown.
var ErrClosed = errors.New("resp: the server was shut down")

// Server serves clients. It is safe for concurrent use. The zero value is not usable; call New.
type Server struct {
	policies  Policies
	throttles *throttles
	opts      Options
	tokens    atomic.Pointer[tokenSums]
	commands  map[string]*command
	sorted    []*command // by name
	metrics   metrics
	batches   sync.Pool

	ctx      context.Context // canceled when Shutdown has waited long enough
	cancel   context.CancelFunc
	draining atomic.Bool
	lastID   atomic.Int64
	queued   atomic.Int64 // bytes that transactions hold

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	guests    list.List      // of *conn: clients that have not authenticated yet, oldest first
	running   sync.WaitGroup // counts conns; grows only while draining is false, under mu
}

// The bounds of a command, and those before authentication, which are as in Redis.
var (
	clientBounds = bounds{args: maxArgs, bulk: maxBulk, command: 2 * maxBulk}
	guestBounds  = bounds{args: 10, bulk: 16 << 10, command: 32 << 10}
)

// New returns a server for policies. CL.THROTTLE uses throttle, which needs no limits and should have its own
// namespace; if throttle is nil, there is no CL.THROTTLE.
func New(policies Policies, throttle *slidegate.Limiter, opts Options) (*Server, error) {
	if policies == nil {
		return nil, fmt.Errorf("resp: policies: must not be nil; call gate.New")
	}
	opts.setDefaults()
	s := &Server{
		policies: policies, opts: opts,
		throttles: newThrottles(throttle, opts.MaxPeriods, opts.LeaseThrottle),
		listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{},
	}
	s.SetTokens(opts.Tokens, opts.AdminTokens)
	s.batches.New = func() any { return new(batch) }
	s.addCommands(throttle != nil)
	if err := s.report(opts.MeterProvider); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Serve serves the clients that connect to l, until Shutdown, when it returns ErrClosed, or until l fails. It closes l.
// It may be called for several listeners.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.addListener(l) {
		return ErrClosed
	}
	defer s.removeListener(l)
	var pause time.Duration
	for {
		client, err := l.Accept()
		if s.draining.Load() {
			if err == nil {
				_ = client.Close()
			}
			return ErrClosed
		}
		if err == nil {
			pause = 0
			s.accept(client)
			continue
		}
		if temporary, ok := err.(interface{ Temporary() bool }); !ok || !temporary.Temporary() {
			return fmt.Errorf("resp: accept: %w", err)
		}
		// Most likely there are no file descriptors left, and some will soon be free.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.opts.Logger.Warn("resp: accept failed; retrying", "error", err, "after", pause)
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
		}
	}
}

// addListener records a listener, so that Shutdown can close it.
func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

// accept starts to serve a client.
func (s *Server) accept(client net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		_ = client.Close()
		return
	}
	c := newConn(s, client, s.lastID.Add(1))
	s.conns[c] = struct{}{}
	if !c.authed {
		s.addGuestLocked(c)
	}
	s.running.Add(1)
	go s.serve(c)
}

// serve serves a client until it is disconnected.
func (s *Server) serve(c *conn) {
	defer s.running.Done()
	why := c.serve()
	_ = c.client.Close()
	c.endTransaction()
	s.mu.Lock()
	delete(s.conns, c)
	s.removeGuestLocked(c)
	s.mu.Unlock()
	s.metrics.disconnects[why].Add(1)
	if why >= leftSlowRead {
		s.opts.Logger.Debug("resp: client disconnected", "reason", reasonNames[why], "client", c.client.RemoteAddr())
	}
}

// Shutdown stops accepting clients, sends every client the replies to the commands that were read completely, and
// disconnects it. If ctx ends before that is done, it disconnects all clients, and returns ctx's error once they are
// gone.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true)
	for l := range s.listeners {
		_ = l.Close()
	}
	for c := range s.conns {
		c.wake()
	}
	s.mu.Unlock()

	gone := make(chan struct{})
	go func() {
		s.running.Wait()
		close(gone)
	}()
	var err error
	select {
	case <-gone:
	case <-ctx.Done():
		err = ctx.Err()
		s.cancel()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.client.Close()
		}
		s.mu.Unlock()
		<-gone
	}
	s.cancel()
	return errors.Join(err, s.metrics.stop())
}
