// Package connlimit bounds how many connections a listener holds: in total, so that clients cannot exhaust the process's file
// descriptors, and per address, so that no single client can keep out the others.
package connlimit

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Options holds the bounds of a Listener. Max and MaxPerAddress are required.
type Options struct {
	// Max is how many connections are held at a time, and MaxPerAddress how many from one address. IPv6 addresses are counted by
	// their /64 network, since a client usually has a whole one to choose from.
	Max, MaxPerAddress int
	// Exempt reports whether MaxPerAddress does not apply to an address, such as the address of a proxy, which connects for many
	// clients; nil exempts none. It must be fast and safe for concurrent use.
	Exempt func(netip.Addr) bool
}

// Listener is a net.Listener that immediately closes connections beyond its bounds. A connection counts until it is closed,
// whatever it is used for. It is safe for concurrent use. The zero value is not usable; call New.
type Listener struct {
	net.Listener
	opts Options

	unsettled atomic.Int64 // connections on which no request has been answered yet

	mu      sync.Mutex
	open    int
	byAddr  map[netip.Addr]int // entries that reach 0 are deleted
	refused int64
}

// New returns a Listener that bounds the connections of inner.
func New(inner net.Listener, opts Options) *Listener {
	return &Listener{Listener: inner, opts: opts, byAddr: map[netip.Addr]int{}}
}

// Open returns how many connections are held.
func (l *Listener) Open() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.open)
}

// Refused returns how many connections were closed because a bound was reached.
func (l *Listener) Refused() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// Accept waits for a connection within the bounds.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := l.client(conn.RemoteAddr())
		if l.acquire(client) {
			l.unsettled.Add(1)
			return &counted{Conn: conn, listener: l, client: client}, nil
		}
		_ = conn.Close()
	}
}

// client returns the address that a connection counts for; the zero Addr if only the total bound applies.
func (l *Listener) client(remote net.Addr) netip.Addr {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if l.opts.Exempt != nil && l.opts.Exempt(addr) {
		return netip.Addr{}
	}
	if addr.Is6() {
		network, _ := addr.Prefix(64) // 64 is a valid length
		return network.Addr()
	}
	return addr
}

func (l *Listener) acquire(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.opts.Max || client.IsValid() && l.byAddr[client] >= l.opts.MaxPerAddress {
		l.refused++
		return false
	}
	l.open++
	if client.IsValid() {
		l.byAddr[client]++
	}
	return true
}

func (l *Listener) release(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if !client.IsValid() {
		return
	}
	if l.byAddr[client]--; l.byAddr[client] == 0 {
		delete(l.byAddr, client)
	}
}

// counted is a connection that stops counting when it is closed.
type counted struct {
	net.Conn
	listener *Listener
	client   netip.Addr
	closed   sync.Once
	settled  atomic.Bool
}

// settle records that a request was answered on the connection, or that none will be.
func (c *counted) settle() {
	if !c.settled.Load() && !c.settled.Swap(true) {
		c.listener.unsettled.Add(-1)
	}
}

// Close closes the connection.
func (c *counted) Close() error {
	c.closed.Do(func() {
		c.settle()
		c.listener.release(c.client)
	})
	return c.Conn.Close()
}

// CloseWrite closes the sending direction only. Servers do this so that a client can read their last response.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// PerAddress returns the default bound per address: a quarter of all connections.
func PerAddress(total int) int { return max(1, total/4) }
