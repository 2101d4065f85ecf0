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
	mostWaiting = 64 << 10 // bytes of answers that are kept for one write
	keptOut     = 16 << 10 // bytes of memory that a connection keeps for answers
)

// conn is a client. Only its own goroutine uses it, but for wake.
type conn struct {
	server *Server
	client net.Conn
	ctx    context.Context
	id     int64
	reader *reader
	out    []byte // answers that are not written yet

	authed  bool
	said    atomic.Pointer[[sha256.Size]byte] // the sum of the token that it was let in with
	resp3   bool
	leaving bool // no further command is answered,
	why     reason
	name    string

	guest   *list.Element // its place among those who have not said the token; nil if it has, or none is wanted
	authBy  time.Time     // when it must have said the token
	wrong   int           // tokens that it has said
	evicted atomic.Bool   // it has to make room for others

	readUntil  time.Time // the deadlines that are set
	writeUntil time.Time
	begun      bool // readUntil is that of a command that had begun,
	completed  bool // and some command has been completed since
	asGuest    bool // readUntil is authBy

	last     *command // what was asked last, for clients mostly ask the same
	lastName []byte
	ran      int64 // how often, since it was counted
	running  bool  // a command is answered that was, or will be, counted as run
	failures int64 // errors that were answered to such commands, since they were counted,
	strays   int64 // and to what is no command
	policies [4]string
	place    int
	throttle throttle
	batch    *batch // SG.ALLOWs that are to be decided together; nil if there are none

	transaction *transaction // what was queued since MULTI; nil if there was none
}

func newConn(s *Server, client net.Conn, id int64) *conn {
	c := &conn{server: s, client: client, ctx: s.ctx, id: id, reader: newReader(client), authed: !s.needsToken()}
	if !c.authed {
		c.authBy = time.Now().Add(s.opts.AuthTimeout)
	}
	return c
}

// Why a client is no longer connected.
type reason int

const (
	leftByItself reason = iota
	leftIdle
	leftDrained
	leftSlowRead
	leftSlowWrite
	leftProtocol
	leftUnauthenticated
	reasons
)

var reasonNames = [reasons]string{"client", "idle", "drained", "slow_read", "slow_write", "protocol", "unauthenticated"}

// serve answers the client until one of both has had enough.
func (c *conn) serve() reason {
	for {
		c.setReadDeadline()
		switch { // looked at after the deadline was set, for who calls wake sets both in the other order
		case c.server.draining.Load():
			return leftDrained
		case c.evicted.Load():
			return leftUnauthenticated
		}
		if err := c.reader.fill(); err != nil {
			return c.readFailed(err)
		}
		if why, ok := c.answer(); !ok {
			return why
		}
	}
}

// wake ends a read that waits for the next command. Server.draining or evicted must be set.
func (c *conn) wake() { _ = c.client.SetReadDeadline(time.Unix(1, 0)) }

func (c *conn) readFailed(err error) reason {
	switch {
	case c.server.draining.Load():
		return leftDrained
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return leftByItself
	case !c.authed:
		return leftUnauthenticated
	case c.begun:
		return leftSlowRead
	}
	return leftIdle
}

// setReadDeadline gives a command that has begun its time, once, and otherwise the client its time to be silent; a client that
// has not said the token has until authBy, whatever it sends. The time to be silent is put off only when it has changed by an eighth, because setting it takes longer than a decision.
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
			c.readBy(now.Add(c.server.opts.ReadTimeout))
		}
	case idle < 0:
		if c.begun || c.asGuest {
			c.readBy(time.Time{})
		}
	case c.begun || c.readUntil.Sub(now) < idle-idle/8:
		c.readBy(now.Add(idle))
	}
	c.begun, c.completed, c.asGuest = begun, false, !c.authed
}

func (c *conn) readBy(when time.Time) {
	c.readUntil = when
	_ = c.client.SetReadDeadline(when)
}

// answer answers the commands that are there. If not ok, the client is to be disconnected.
func (c *conn) answer() (why reason, ok bool) {
	for n := 1; ; n++ {
		args, complete, err := c.reader.next(c.bounds())
		if err != nil {
			c.decide()
			if err != errForeign {
				c.fail(err.Error())
			}
			c.count(nil)
			_ = c.write()
			return leftProtocol, false
		}
		if !complete {
			break
		}
		c.completed = true
		c.run(args)
		if c.leaving {
			c.count(nil)
			_ = c.write()
			return c.why, false
		}
		if n%c.server.opts.MaxPipeline == 0 || len(c.out) >= mostWaiting {
			if why, ok := c.flush(); !ok {
				return why, false
			}
		}
	}
	return c.flush()
}

// flush decides what waits to be decided, and writes all answers.
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
	return leftByItself, false
}

// write sends the answers.
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

// bounds are what the next command may take.
func (c *conn) bounds() bounds {
	if c.authed {
		return c.server.bounds
	}
	return c.server.strange
}

// count counts a command; nil brings the counts up to date.
func (c *conn) count(cmd *command) {
	if cmd == c.last && cmd != nil {
		c.ran++
		return
	}
	if c.ran > 0 {
		c.last.ran.Add(c.ran)
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
