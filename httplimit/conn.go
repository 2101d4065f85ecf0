package httplimit

import (
	"io"
	"net"
	"runtime"
	"syscall"
)

// heldConn is a connection that a handler has taken over from a request that holds slots. They are released when it is closed, or
// when it is collected because a handler has lost it without Close.
type heldConn struct {
	net.Conn
	release func()
}

// holdConn returns a connection that releases when it is closed. It has those of the optional interfaces of TCP and TLS connections
// that the one below has.
func holdConn(conn net.Conn, release func()) net.Conn {
	held := &heldConn{conn, release}
	runtime.AddCleanup(held, func(release func()) { release() }, release)
	half, halves := conn.(halfCloser)
	tcp, isTCP := conn.(tcpConn)
	switch {
	case isTCP:
		return struct {
			*heldConn
			tcpConn
		}{held, tcp}
	case halves:
		return struct {
			*heldConn
			halfCloser
		}{held, half}
	}
	return held
}

// Close closes the connection, and releases the slots even if that fails.
func (c *heldConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// halfCloser is implemented by TCP and TLS connections.
type halfCloser interface{ CloseWrite() error }

// tcpConn is implemented by TCP connections, which send files and join connections without a copy.
type tcpConn interface {
	halfCloser
	CloseRead() error
	io.ReaderFrom
	io.WriterTo
	syscall.Conn
}
