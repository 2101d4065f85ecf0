package listen

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// Connections that are queued when the listener is closed are accepted and served, and no other client can connect.
func TestQuiesce(t *testing.T) {
	for name, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": "unix:" + filepath.Join(t.TempDir(), "s.sock")} {
		t.Run(name, func(t *testing.T) {
			l, err := Options{}.Open(address)
			testkit.NoError(t, err)
			network, at := l.Addr().Network(), l.Addr().String()
			const clients = 20
			var conns [clients]net.Conn
			for i := range conns { // they are not accepted yet
				conns[i], err = net.Dial(network, at)
				testkit.NoError(t, err)
				defer conns[i].Close()
			}
			served := make(chan error, 1)
			accepted := make(chan struct{})
			go func() {
				<-accepted
				served <- greet(l)
			}()
			quiet := make(chan struct{})
			go func() {
				l.Quiesce(t.Context())
				close(quiet)
			}()
			testkit.Eventually(t, "new connections are refused", func() bool {
				conn, err := net.Dial(network, at)
				if err == nil {
					conn.Close()
				}
				return err != nil
			})
			close(accepted)
			<-quiet
			for i, conn := range conns {
				if got, err := io.ReadAll(conn); err != nil || string(got) != "hello" {
					t.Errorf("client %d: got %q, %v, want hello", i, got, err)
				}
			}
			testkit.NoError(t, l.Close())
			testkit.NoError(t, l.Close())
			if err := <-served; !isClosed(err) {
				t.Errorf("Accept: got %v, want %v", err, net.ErrClosed)
			}
		})
	}
}

// greet sends hello on every connection.
func greet(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		fmt.Fprint(conn, "hello")
		conn.Close()
	}
}

// The queue of an inherited socket is left to the next process that accepts.
func TestQuiesceInherited(t *testing.T) {
	kept, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	defer kept.Close()
	file, err := kept.(*net.TCPListener).File()
	testkit.NoError(t, err)
	defer file.Close()
	inner, err := net.FileListener(file)
	testkit.NoError(t, err)
	l := Inherited(inner)
	client, err := net.Dial("tcp", kept.Addr().String())
	testkit.NoError(t, err)
	defer client.Close()
	accepted := make(chan error, 1)
	over, cancel := context.WithCancel(t.Context())
	cancel() // there is no call to Accept
	l.Quiesce(over)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	testkit.NoError(t, l.Close())
	if err := <-accepted; !isClosed(err) {
		t.Errorf("Accept: got %v, want %v", err, net.ErrClosed)
	}
	late, err := net.Dial("tcp", kept.Addr().String())
	testkit.NoError(t, err)
	defer late.Close()
	for range 2 {
		conn, err := kept.Accept()
		testkit.NoError(t, err)
		conn.Close()
	}
}

// Two listeners share a port if both set ReusePort.
func TestReusePort(t *testing.T) {
	first, err := Options{ReusePort: true}.Open("127.0.0.1:0")
	testkit.NoError(t, err)
	defer first.Close()
	at := first.Addr().String()
	if l, err := (Options{}).Open(at); err == nil {
		l.Close()
		t.Error("a listener without ReusePort shares the port")
	}
	second, err := Options{ReusePort: true}.Open(at)
	testkit.NoError(t, err)
	testkit.NoError(t, second.Close())
}

func TestMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := Options{Mode: 0o600}.Open("unix:" + path)
	testkit.NoError(t, err)
	defer l.Close()
	info, err := os.Stat(path)
	testkit.NoError(t, err)
	if got := info.Mode().Perm(); got != fs.FileMode(0o600) {
		t.Errorf("got socket mode %o, want 600", got)
	}
}

// Quiesce returns only when the server knows every connection that was accepted before.
func TestQuiesceWaitsForTheServer(t *testing.T) {
	l, err := Options{}.Open("127.0.0.1:0")
	testkit.NoError(t, err)
	client, err := net.Dial("tcp", l.Addr().String())
	testkit.NoError(t, err)
	defer client.Close()
	conn, err := l.Accept()
	testkit.NoError(t, err)
	quiet := make(chan struct{})
	go func() {
		l.Quiesce(t.Context())
		close(quiet)
	}()
	testkit.Eventually(t, "the socket is closed", func() bool {
		other, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			other.Close()
		}
		return err != nil
	})
	select {
	case <-quiet:
		t.Error("Quiesce did not wait until Accept was called again")
	default:
	}
	ended := make(chan error, 1)
	go func() {
		for { // connections that the test has made in the meantime
			other, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			other.Close()
		}
	}()
	<-quiet
	conn.Close()
	testkit.NoError(t, l.Close())
	<-ended
}
