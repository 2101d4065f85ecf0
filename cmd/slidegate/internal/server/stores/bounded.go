package stores

import (
	"net"
	"sync/atomic"
)

// boundedConn is a connection to a Redis that is not trusted: what it answers reaches the client only as far as it is
// framed as Redis would, within bounds, and answers a command. The client makes room for any length that it is told, and takes
// an answer too many for a fault of its own: either would end the process, which no failure mode catches.
type boundedConn struct {
	net.Conn
	in  framing // of one reader at a time
	out framing // of one writer at a time

	counted  bool // answers are counted: not where commands are answered by messages that nobody asked for
	asked    atomic.Int64
	answered int64
	bad      error // of the reader
}

// newBoundedConn wraps a connection. A sentinel sends messages that answer nothing, so there they are not counted.
func newBoundedConn(conn net.Conn, sentinel bool) *boundedConn {
	c := &boundedConn{Conn: conn, counted: !sentinel}
	c.in.pushes, c.out.own = sentinel, true
	return c
}

// Write notes how many commands are sent, before they are.
func (c *boundedConn) Write(p []byte) (int, error) {
	if c.counted {
		commands, err := c.out.feed(p)
		if err != nil {
			return 0, err // the client's commands are framed well: this is a fault of ours
		}
		if commands > 0 {
			c.asked.Add(int64(commands))
		}
	}
	return c.Conn.Write(p)
}

// Read reads what is known to be harmless.
func (c *boundedConn) Read(p []byte) (int, error) {
	if c.bad != nil {
		return 0, c.bad
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	answers, bad := c.in.feed(p[:n])
	c.answered += int64(answers)
	if bad == nil && c.counted && c.answered > c.asked.Load() {
		bad = badFraming("it answers what nobody asked")
	}
	if bad != nil {
		c.bad = bad
		return 0, bad
	}
	return n, err
}
