package listen

import (
	"context"
	"io/fs"
	"net"
	"sync"
)

// Options say how addresses are opened. The zero value is good.
type Options struct {
	// ReusePort lets another process listen on the same port at the same time, if it says so too and has the same user. A new process can
	// then take over before the old one ends.
	ReusePort bool
	// Mode is of Unix sockets; 0 means 0660.
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

// Inherited is a listener on a socket that another process opened and keeps, such as systemd.
func Inherited(inner net.Listener) *Listener { return newListener(inner, true) }

func newListener(inner net.Listener, inherited bool) *Listener {
	return &Listener{Listener: inner, inherited: inherited, waiting: make(chan net.Conn), resting: make(chan struct{}), closed: make(chan struct{})}
}

// Listener is a net.Listener that can be closed in two steps, so that nobody who has connected is turned away. It is safe for concurrent
// use. Options.Open and Inherited make it.
type Listener struct {
	net.Listener
	inherited bool
	waiting   chan net.Conn // connections that nobody had accepted when Quiesce was called
	resting   chan struct{} // sent to Accept when it has nothing left to return
	quiesce   sync.Once
	close     sync.Once
	closed    chan struct{}
}

// Accept waits for a connection. After Quiesce it returns those that were waiting, and then waits for Close.
func (l *Listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil || !isClosed(err) {
		return conn, err
	}
	for {
		select {
		case conn := <-l.waiting:
			return conn, nil
		case <-l.resting:
		case <-l.closed:
			return nil, err
		}
	}
}

// Quiesce closes the socket, once it has passed on to Accept the connections that wait in its queue: clients think that they are connected,
// and closing the socket resets them. Those of a socket that another process keeps stay in its queue, for the process that accepts next. It returns
// when another goroutine has called Accept for all of them and once more, so that whatever was accepted is known to the server, or when
// Close is called or ctx ends; what is left then is closed.
func (l *Listener) Quiesce(ctx context.Context) {
	l.quiesce.Do(func() {
		var left []net.Conn
		if !l.inherited {
			left = acceptWaiting(l.Listener)
		}
		_ = l.Listener.Close()
		for _, conn := range left {
			select {
			case l.waiting <- conn:
			case <-l.closed:
				_ = conn.Close()
			case <-ctx.Done():
				_ = conn.Close()
			}
		}
		select {
		case l.resting <- struct{}{}:
		case <-l.closed:
		case <-ctx.Done():
		}
	})
}

// Close closes the socket, with whatever is in its queue.
func (l *Listener) Close() (err error) {
	l.close.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
		if isClosed(err) {
			err = nil // by Quiesce
		}
	})
	return err
}
