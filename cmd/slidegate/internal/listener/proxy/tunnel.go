package proxy

import (
	"bufio"
	"errors"
	"net"
	"time"
)

// Hijack takes over the connection for a websocket.
func (w *deadlineWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := w.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	t := &tunnel{Conn: conn, idle: w.websocketIdle}
	t.begin()
	return t, buffered, nil
}

// tunnel is a client's connection that is joined to a connection to the application. It is closed when it has been idle for too
// long: reads come from the client, writes from the application, and either keeps both directions open.
type tunnel struct {
	net.Conn
	idle time.Duration
}

func (t *tunnel) begin() { _ = t.SetDeadline(time.Now().Add(t.idle)) } // all connections of net/http support deadlines

// Read reads what the client sends.
func (t *tunnel) Read(to []byte) (int, error) {
	n, err := t.Conn.Read(to)
	if n > 0 {
		t.begin()
	}
	return n, err
}

// Write writes what the application sends.
func (t *tunnel) Write(part []byte) (int, error) {
	t.begin()
	return t.Conn.Write(part)
}

// CloseWrite tells the client that the application has finished sending.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
