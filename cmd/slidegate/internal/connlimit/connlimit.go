// Package connlimit bounds how many connections a listener holds: in all, so that clients cannot use up what the process may open,
// and by address, so that no single one of them can keep out the others.
package connlimit

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Options are the bounds of a Listener. Both are required.
type Options struct {
	// Max is how many connections are held at once, and MaxPerAddress how many of one address. Of IPv6, an address is a network
	// of 64 bits, of which a client has a whole one to choose from.
	Max, MaxPerAddress int
	// Exempt reports whether an address has no bound of its own, such as a proxy's, which connects for many clients; nil exempts
	// none. It must be quick and safe for concurrent use.
	Exempt func(netip.Addr) bool
}

// Listener is a net.Listener that closes connections beyond its bounds at once. A connection counts until it is closed, whatever
// it is used for. It is safe for concurrent use. The zero value is not usable; New makes it.
type Listener struct {
	net.Listener
	opts Options

	unsettled atomic.Int64 // connections on which no request has been answered yet

	mu      sync.Mutex
	open    int
	byAddr  map[netip.Addr]int // none is zero
	refused int64
}

// New puts bounds on a listener.
func New(inner net.Listener, opts Options) *Listener {
	return &Listener{Listener: inner, opts: opts, byAddr: map[netip.Addr]int{}}
}

// Open returns how many connections are held.
func (l *Listener) Open() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.open)
}

// Refused returns how many connections were closed because there was no room for them.
func (l *Listener) Refused() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// Accept waits for a connection for which there is room.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := l.client(conn.RemoteAddr())
		if l.take(client) {
			l.unsettled.Add(1)
			return &counted{Conn: conn, listener: l, client: client}, nil
		}
		_ = conn.Close()
	}
}

// client returns whom a connection counts for: the zero Addr if for nobody in particular.
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
		network, _ := addr.Prefix(64) // 64 is within its length
		return network.Addr()
	}
	return addr
}

func (l *Listener) take(client netip.Addr) bool {
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

func (l *Listener) giveBack(client netip.Addr) {
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

// counted is a connection that makes room when it is closed.
type counted struct {
	net.Conn
	listener *Listener
	client   netip.Addr
	closed   sync.Once
	settled  atomic.Bool
}

// settle notes that a request was answered on the connection, or that none will be.
func (c *counted) settle() {
	if !c.settled.Load() && !c.settled.Swap(true) {
		c.listener.unsettled.Add(-1)
	}
}

// Close closes the connection.
func (c *counted) Close() error {
	c.closed.Do(func() {
		c.settle()
		c.listener.giveBack(c.client)
	})
	return c.Conn.Close()
}

// CloseWrite ends what is sent, and leaves the other direction open. Servers do so to have a client read their last answer.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// IsProxy is for Options.Exempt: it reports whether an address is one of the proxies that are trusted. If none were named, which nil
// means, those on the same machine are.
func IsProxy(trusted []netip.Prefix, addr netip.Addr) bool {
	if trusted == nil {
		return addr.IsLoopback()
	}
	for _, prefix := range trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// PerAddress is how many connections of one address there may be unless said otherwise: a quarter of all.
func PerAddress(most int) int { return max(1, most/4) }
