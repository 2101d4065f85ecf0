package resp

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

const (
	maxBuffered = 64 << 10 // bytes of replies that are buffered for one write
	keptOut     = 16 << 10 // bytes of memory that a connection keeps for replies
)

// conn is a client connection. Only its own goroutine uses it, except for wake.
type conn struct {
	server *Server
	client net.Conn
	ctx    context.Context
	id     int64
	reader *reader
	out    []byte // replies that are not written yet

	authed  bool
	token   atomic.Pointer[[sha256.Size]byte] // the hash of the token that it authenticated with
	resp3   bool
	closing bool   // no further command is run, and the client is disconnected
	why     reason // why the client is disconnected

	guest       *list.Element // its element in Server.guests; nil once authenticated, or if no token is required
	authBy      time.Time     // the deadline for authentication
	failedAuths int           // failed attempts to authenticate
	evicted     atomic.Bool   // it is disconnected to make room for other clients

	readUntil  time.Time // the deadlines that are set
	writeUntil time.Time
	begun      bool // readUntil is the deadline of a command that had begun
	completed  bool // a command has been completed since readUntil was set

	last       *command // the last command, since clients mostly repeat one
	lastName   []byte
	ran        int64 // how often it ran since it was last counted
	running    bool  // a command is running that was, or will be, counted
	failures   int64 // error replies to such commands since they were last counted
	strays     int64 // error replies to input that is not a command, since they were last counted
	policies   [4]string
	nextPolicy int
	throttle   throttle
	remote     string // see address
	batch      *batch // SG.ALLOWs to decide together; nil if there are none

	transaction *transaction // what was queued since MULTI; nil outside a transaction
}

func newConn(s *Server, client net.Conn, id int64) *conn {
	c := &conn{server: s, client: client, ctx: s.ctx, id: id, reader: newReader(client), authed: !s.needsToken()}
	if !c.authed {
		c.authBy = time.Now().Add(authTimeout)
	}
	return c
}

// reason is the reason why a client was disconnected.
type reason int

const (
	leftByClient reason = iota
	leftIdle
	leftDrained
	leftSlowRead
	leftSlowWrite
	leftProtocol
	leftUnauthenticated
	reasons
)

var reasonNames = [reasons]string{"client", "idle", "drained", "slow_read", "slow_write", "protocol", "unauthenticated"}

// serve serves the client until either side ends the connection.
func (c *conn) serve() reason {
	for {
		c.setReadDeadline()
		switch { // checked after setting the deadline, since callers of wake do both in the opposite order
		case c.server.draining.Load():
			return leftDrained
		case c.evicted.Load():
			return leftUnauthenticated
		}
		if err := c.reader.fill(); err != nil {
			return c.readFailed(err)
		}
		if why, ok := c.runCommands(); !ok {
			return why
		}
	}
}

// wake interrupts a read that waits for the next command. Server.draining or evicted must be set.
func (c *conn) wake() { _ = c.client.SetReadDeadline(time.Unix(1, 0)) }

func (c *conn) readFailed(err error) reason {
	switch {
	case c.server.draining.Load():
		return leftDrained
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return leftByClient
	case !c.authed:
		return leftUnauthenticated
	case c.begun:
		return leftSlowRead
	}
	return leftIdle
}

// setReadDeadline sets the deadline of a command that has begun, once, and otherwise the idle deadline. A client that
// has not authenticated has until authBy, whatever it sends. The idle deadline is moved only when it has changed by an
// eighth, because setting it takes longer than a decision.
func (c *conn) setReadDeadline() {
	now, idle := time.Now(), c.server.opts.IdleTimeout
	begun := c.reader.begun()
	switch {
	case !c.authed:
		if !c.readUntil.Equal(c.authBy) {
			c.readBy(c.authBy)
		}
	case begun:
		if !c.begun || c.completed {
			c.readBy(now.Add(readTimeout))
		}
	case c.begun || c.readUntil.Sub(now) < idle-idle/8:
		c.readBy(now.Add(idle))
	}
	c.begun, c.completed = begun, false
}

func (c *conn) readBy(when time.Time) {
	c.readUntil = when
	_ = c.client.SetReadDeadline(when)
}

// runCommands runs the commands that have been read. If it returns false, the client must be disconnected.
func (c *conn) runCommands() (why reason, ok bool) {
	for n := 1; ; n++ {
		args, complete, err := c.reader.next(c.bounds())
		if err != nil {
			c.decide()
			c.fail(err.Error())
			c.count(nil)
			_ = c.write()
			return leftProtocol, false
		}
		if !complete {
			break
		}
		c.completed = true
		c.run(args)
		if c.closing {
			c.count(nil)
			_ = c.write()
			return c.why, false
		}
		if n%c.server.opts.MaxPipeline == 0 || len(c.out) >= maxBuffered {
			if why, ok := c.flush(); !ok {
				return why, false
			}
		}
	}
	return c.flush()
}

// flush decides pending SG.ALLOWs, and writes all replies.
func (c *conn) flush() (why reason, ok bool) {
	c.decide()
	c.count(nil)
	err := c.write()
	switch {
	case err == nil:
		return 0, true
	case errors.Is(err, os.ErrDeadlineExceeded):
		return leftSlowWrite, false
	}
	return leftByClient, false
}

// write sends the replies.
func (c *conn) write() error {
	if len(c.out) == 0 {
		return nil
	}
	timeout, now := c.server.opts.WriteTimeout, time.Now()
	if c.writeUntil.Sub(now) < timeout-timeout/8 {
		c.writeUntil = now.Add(timeout)
		_ = c.client.SetWriteDeadline(c.writeUntil)
	}
	_, err := c.client.Write(c.out)
	c.out = c.out[:0]
	if cap(c.out) > keptOut {
		c.out = nil
	}
	return err
}

// bounds returns the bounds of the next command.
func (c *conn) bounds() bounds {
	if c.authed {
		return clientBounds
	}
	return guestBounds
}

// count counts a command. If cmd is nil, it only updates the totals.
func (c *conn) count(cmd *command) {
	if cmd == c.last && cmd != nil {
		c.ran++
		return
	}
	if c.ran > 0 {
		c.last.runs.Add(c.ran)
	}
	c.ran = 0
	if c.failures+c.strays > 0 {
		c.server.metrics.failures.Add(c.failures)
		c.server.metrics.strays.Add(c.strays)
		c.failures, c.strays = 0, 0
	}
	if cmd != nil {
		c.last, c.ran = cmd, 1
	}
}
