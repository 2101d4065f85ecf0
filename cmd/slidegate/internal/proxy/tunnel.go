package proxy

import (
	"bufio"
	"errors"
	"net"
	"time"
)

// Hijack hands the connection over for a websocket.
func (w *patientWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := w.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	t := &tunnel{Conn: conn, idle: w.websocketIdle}
	t.begin()
	return t, buffered, nil
}

// tunnel is a client's connection whose other end is the application's. It is cut off when nothing has passed for too long: what is
// read comes from the client, what is written from the application, and either one keeps both directions open.
type tunnel struct {
	net.Conn
	idle time.Duration
}

func (t *tunnel) begin() { _ = t.SetDeadline(time.Now().Add(t.idle)) } // all connections of net/http have deadlines

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

// CloseWrite passes on that the application has said all that it had to say.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
