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

// ErrClosed is what Serve returns after Shutdown.
var ErrClosed = errors.New("resp: the server was shut down")

// Server answers clients. It is safe for concurrent use. The zero value is not usable; New makes it.
type Server struct {
	policies  Policies
	throttles *throttles
	opts      Options
	tokens    atomic.Pointer[tokenSums]
	commands  map[string]*command
	sorted    []*command // by name
	metrics   *metrics
	began     time.Time
	bounds    bounds // of a command
	strange   bounds // of a command by somebody who has not said the token yet
	batches   sync.Pool

	ctx      context.Context // ends when Shutdown has waited long enough
	cancel   context.CancelFunc
	draining atomic.Bool
	lastID   atomic.Int64
	queued   atomic.Int64  // bytes that transactions hold
	goodbyes chan struct{} // as many as are being told that there are too many

	mu        sync.Mutex
	warned    time.Time // when it was last logged that there are too many
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	guests    list.List      // of *conn: those who have not said the token yet, in the order in which they came
	evicted   int            // of conns: those who have been told to go
	running   sync.WaitGroup // of conns; grows only while draining is false, under mu
}

// What somebody may send who has not said the token yet; as in Redis.
const (
	strangeArgs = 10
	strangeBulk = 16 << 10
)

// mostGoodbyes is how many clients at once are told that there are too many; others are only disconnected.
const mostGoodbyes = 64

// New returns a server that asks policies, and throttle for CL.THROTTLE. Throttle needs no limits of its own, and wants a
// namespace of its own; if it is nil, there is no CL.THROTTLE.
func New(policies Policies, throttle *slidegate.Limiter, opts Options) (*Server, error) {
	if policies == nil {
		return nil, fmt.Errorf("resp: policies: must not be nil; gate.New makes them")
	}
	if err := opts.complete(); err != nil {
		return nil, err
	}
	s := &Server{
		policies: policies, opts: opts, began: time.Now(),
		throttles: newThrottles(throttle, opts.MaxPeriods, opts.LeaseThrottle),
		bounds:    bounds{args: opts.MaxArgs, bulk: opts.MaxBulk, command: 2 * opts.MaxBulk},
		listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{}, goodbyes: make(chan struct{}, mostGoodbyes),
	}
	s.strange = bounds{args: min(strangeArgs, opts.MaxArgs), bulk: min(strangeBulk, opts.MaxBulk), command: min(2*strangeBulk, 2*opts.MaxBulk)}
	s.SetTokens(opts.Tokens, opts.AdminTokens)
	s.batches.New = func() any { return new(batch) }
	s.addCommands(throttle != nil)
	var err error
	if s.metrics, err = newMetrics(opts.MeterProvider, s.sorted, s.connected); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Serve answers those who connect to l, until Shutdown, when it returns ErrClosed, or until l fails. It closes l. It may be
// called for several listeners.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.listen(l) {
		return ErrClosed
	}
	defer s.forget(l)
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
			s.welcome(client)
			continue
		}
		if temporary, ok := err.(interface{ Temporary() bool }); !ok || !temporary.Temporary() {
			return fmt.Errorf("resp: accept: %w", err)
		}
		// Most likely there are no file descriptors left, and some will be soon.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.opts.Logger.Warn("resp: accept failed, trying again", "error", err, "after", pause)
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
		}
	}
}

// listen remembers a listener, so that Shutdown can close it.
func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) forget(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

// welcome begins to answer a client, or sends it away.
func (s *Server) welcome(client net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining.Load():
		_ = client.Close()
	case !s.roomLocked():
		s.sendAwayLocked(client)
	default:
		c := newConn(s, client, s.lastID.Add(1))
		s.conns[c] = struct{}{}
		if !c.authed {
			c.guest = s.guests.PushBack(c)
		}
		s.running.Add(1)
		go s.attend(c)
	}
}

// attend answers a client until it leaves.
func (s *Server) attend(c *conn) {
	defer s.running.Done()
	why := c.serve()
	_ = c.client.Close()
	c.endTransaction()
	s.mu.Lock()
	delete(s.conns, c)
	s.forgetGuestLocked(c)
	if c.evicted.Load() {
		s.evicted--
	}
	s.mu.Unlock()
	s.metrics.left[why].Add(1)
	if why >= leftSlowRead {
		s.opts.Logger.Debug("resp: client disconnected", "reason", reasonNames[why], "client", c.client.RemoteAddr())
	}
}

// sendAwayLocked tells a client that there are too many, without keeping anybody else waiting.
func (s *Server) sendAwayLocked(client net.Conn) {
	s.metrics.sentAway.Add(1)
	now := time.Now()
	if now.Sub(s.warned) >= time.Minute {
		s.warned = now
		s.opts.Logger.Warn("resp: as many clients as MaxConnections allows; others are sent away", "most", s.opts.MaxConnections)
	}
	select {
	case s.goodbyes <- struct{}{}:
	default:
		_ = client.Close()
		return
	}
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		defer func() { <-s.goodbyes }()
		defer client.Close()
		_ = client.SetDeadline(now.Add(min(time.Second, s.opts.WriteTimeout)))
		_, _ = client.Write([]byte("-ERR max number of clients reached\r\n"))
	}()
}

// Shutdown accepts nobody any more, lets every client have the answers to the commands that were read completely, and
// disconnects it. When ctx ends before that is done, it disconnects all, and returns ctx's error once they are gone.
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
	return errors.Join(err, s.metrics.close())
}

// connected is how many clients there are.
func (s *Server) connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
