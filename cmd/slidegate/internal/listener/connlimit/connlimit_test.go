package connlimit

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// fakeListener is a listener that accepts connections given by a test.
type fakeListener struct {
	net.Listener
	conns chan net.Conn
}

func (l *fakeListener) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn
	remote net.Addr
	closed bool
}

func (f *fakeConn) RemoteAddr() net.Addr { return f.remote }
func (f *fakeConn) Close() error         { f.closed = true; return nil }

func tcp(addr string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)) }

// play passes connections to a Listener, and returns those that were accepted.
func play(t *testing.T, opts Options, remotes ...net.Addr) (l *Listener, in []net.Conn, got string) {
	t.Helper()
	conns := make(chan net.Conn, len(remotes))
	all := make([]*fakeConn, len(remotes))
	for i, remote := range remotes {
		all[i] = &fakeConn{remote: remote}
		conns <- all[i]
	}
	close(conns)
	l = New(&fakeListener{conns: conns}, opts)
	for {
		conn, err := l.Accept()
		if err != nil {
			break
		}
		in = append(in, conn)
	}
	for _, one := range all {
		got += map[bool]string{true: "-", false: "+"}[one.closed]
	}
	return l, in, got
}

func TestBounds(t *testing.T) {
	exempt := func(addr netip.Addr) bool { return addr == netip.MustParseAddr("10.0.0.1") }
	for _, test := range []struct {
		remotes []string
		want    string
	}{
		{[]string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.2:1"}, "++-+"},
		{[]string{"192.0.2.1:1", "[::ffff:192.0.2.1]:2", "192.0.2.1:3"}, "++-"},
		{[]string{"[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::ffff:1:2:3]:1", "[2001:db8:0:1::1]:1"}, "++-+"},
		{[]string{"[fe80::1%eth0]:1", "[fe80::2%eth1]:1", "[fe80::3]:1"}, "++-"},
		{[]string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3", "10.0.0.1:4", "[::ffff:10.0.0.1]:5", "10.0.0.1:6"}, "+++++-"}, // up to the total bound
		{[]string{"192.0.2.1:1", "192.0.2.1:1", "192.0.2.2:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.4:1"}, "+++++-"},
	} {
		var remotes []net.Addr
		for _, remote := range test.remotes {
			remotes = append(remotes, tcp(remote))
		}
		l, in, got := play(t, Options{Max: 5, MaxPerAddress: 2, Exempt: exempt}, remotes...)
		if got != test.want {
			t.Errorf("%v: got %s, want %s", test.remotes, got, test.want)
		}
		if l.Open() != int64(len(in)) || l.Refused() != int64(len(remotes)-len(in)) {
			t.Errorf("%v: got %d open and %d refused, want %d and %d", test.remotes, l.Open(), l.Refused(), len(in), len(remotes)-len(in))
		}
		for _, conn := range in {
			_ = conn.Close()
			_ = conn.Close() // counts only once
		}
		if l.Open() != 0 || len(l.byAddr) != 0 {
			t.Errorf("%v: after all were closed: got %d open, %v", test.remotes, l.Open(), l.byAddr)
		}
	}
	if _, _, got := play(t, Options{Max: 3, MaxPerAddress: 1}, &net.UnixAddr{Name: "@"}, &net.UnixAddr{Name: "@"}, &net.UnixAddr{}, &net.UnixAddr{}); got != "+++-" {
		t.Errorf("a Unix socket: got %s, want +++-", got)
	}
}

func TestPerAddress(t *testing.T) {
	if got := fmt.Sprint(PerAddress(1), PerAddress(3), PerAddress(60), PerAddress(1<<16)); got != "1 1 15 16384" {
		t.Errorf("got %s, want 1 1 15 16384", got)
	}
}
