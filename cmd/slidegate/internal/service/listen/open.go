package listen

import (
	"context"
	"io/fs"
	"net"
	"sync"
)

// Options configures how addresses are opened. The zero value is valid.
type Options struct {
	// ReusePort lets another process of the same user listen on the same port, if it sets ReusePort too. A new process can then take
	// over before the old one stops.
	ReusePort bool
	// Mode is the mode of Unix sockets; 0 means 0660.
	Mode fs.FileMode
}

// Open opens an address.
func (o Options) Open(address string) (*Listener, error) {
	if err := Check(address); err != nil {
		return nil, err
	}
	inner, err := o.open(address)
	if err != nil {
		return nil, err
	}
	return newListener(inner, false), nil
}

func (o Options) open(address string) (net.Listener, error) {
	if IsUnix(address) {
		return listenUnix(Path(address), o.Mode)
	}
	var config net.ListenConfig
	if o.ReusePort {
		config.Control = reusePort
	}
	return config.Listen(context.Background(), "tcp", address)
}

// Inherited returns a listener on a socket that another process, such as systemd, opened and keeps open.
func Inherited(inner net.Listener) *Listener { return newListener(inner, true) }

func newListener(inner net.Listener, inherited bool) *Listener {
	return &Listener{Listener: inner, inherited: inherited, queued: make(chan net.Conn), drained: make(chan struct{}), closed: make(chan struct{})}
}

// Listener is a net.Listener that can be closed in two steps, so that no client that has connected is turned away. It is safe for
// concurrent use. The zero value is not usable; call Options.Open or Inherited.
type Listener struct {
	net.Listener
	inherited bool
	queued    chan net.Conn // connections that were not accepted when Quiesce was called
	drained   chan struct{} // received by Accept when no queued connection is left
	quiesce   sync.Once
	close     sync.Once
	closed    chan struct{}
}

// Accept waits for a connection. After Quiesce it returns the connections that were queued, and then waits for Close.
func (l *Listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil || !isClosed(err) {
		return conn, err
	}
	for {
		select {
		case conn := <-l.queued:
			return conn, nil
		case <-l.drained:
		case <-l.closed:
			return nil, err
		}
	}
}

// Quiesce closes the socket after passing the connections in its queue to Accept: their clients believe that they are connected,
// and closing the socket would reset them. Connections to an inherited socket stay in its queue, for the next process that accepts.
// Quiesce returns when another goroutine has called Accept for all of them and once more, so that the server knows every accepted
// connection, or when Close is called or ctx ends; connections left then are closed.
func (l *Listener) Quiesce(ctx context.Context) {
	l.quiesce.Do(func() {
		var left []net.Conn
		if !l.inherited {
			left = acceptQueued(l.Listener)
		}
		_ = l.Listener.Close()
		for _, conn := range left {
			select {
			case l.queued <- conn:
			case <-l.closed:
				_ = conn.Close()
			case <-ctx.Done():
				_ = conn.Close()
			}
		}
		select {
		case l.drained <- struct{}{}:
		case <-l.closed:
		case <-ctx.Done():
		}
	})
}

// Close closes the socket and the connections in its queue.
func (l *Listener) Close() (err error) {
	l.close.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
		if isClosed(err) {
			err = nil // closed by Quiesce
		}
	})
	return err
}
