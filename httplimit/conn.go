package httplimit

import (
	"io"
	"net"
	"runtime"
	"syscall"
)

// heldConn is a connection that a handler has taken over from a request that holds slots. The slots are released when it is
// closed, or when it is garbage collected because a handler lost it without closing it.
type heldConn struct {
	net.Conn
	release func()
}

// holdConn returns a connection that calls release when it is closed. It implements the optional interfaces of TCP and TLS
// connections that conn implements.
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
