package stores

import (
	"net"
	"sync/atomic"
)

// boundedConn is a connection to an untrusted Redis. A reply reaches the client only if it is framed as Redis would frame it, is
// within bounds, and belongs to a command. The client allocates whatever length it is sent, and treats a surplus reply as its
// own bug. Either would end the process, which no failure mode catches.
type boundedConn struct {
	net.Conn
	in  framing // used by one reader at a time
	out framing // used by one writer at a time

	counted bool         // whether replies are counted; not if push messages answer commands
	sent    atomic.Int64 // commands
	replies int64        // commands; used by the reader
	readErr error        // used by the reader
}

// newBoundedConn wraps a connection. A sentinel sends messages that are not replies, so its replies are not counted.
func newBoundedConn(conn net.Conn, sentinel bool) *boundedConn {
	c := &boundedConn{Conn: conn, counted: !sentinel}
	c.in.pushes, c.out.commands = sentinel, true
	return c
}

// Write counts the commands before they are sent.
func (c *boundedConn) Write(p []byte) (int, error) {
	if c.counted {
		commands, err := c.out.feed(p)
		if err != nil {
			return 0, err // the client frames its commands correctly, so this is our bug
		}
		if commands > 0 {
			c.sent.Add(int64(commands))
		}
	}
	return c.Conn.Write(p)
}

// Read returns only bytes that have passed the checks.
func (c *boundedConn) Read(p []byte) (int, error) {
	if c.readErr != nil {
		return 0, c.readErr
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	answers, bad := c.in.feed(p[:n])
	c.replies += int64(answers)
	if bad == nil && c.counted && c.replies > c.sent.Load() {
		bad = badFraming("a reply without a command")
	}
	if bad != nil {
		c.readErr = bad
		return 0, bad
	}
	return n, err
}
