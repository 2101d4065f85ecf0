package proxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

const upgrade = "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// chat is an application that accepts websockets. It echoes each byte, and sends a dot for each value in dots.
func chat(dots <-chan bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		if dots != nil {
			go func() {
				for range dots {
					_, _ = io.WriteString(conn, ".")
				}
			}()
		}
		_, _ = io.Copy(conn, conn)
	}
}

// socket opens a websocket from an address of this machine; nil if it is refused.
func (r *rig) socket(from string) (net.Conn, *bufio.Reader) {
	r.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.Dial("tcp", r.at)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, upgrade) // it may already be closed
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		return nil, nil
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		r.t.Fatalf("got %s, want a websocket", answer.Status)
	}
	return conn, reader
}

// TestWebsocketsAreCounted: a websocket counts as a connection for as long as it lasts.
func TestWebsocketsAreCounted(t *testing.T) {
	s := unlimitedSettings()
	s.serve.connections = 3
	r := newRig(t, application(t, chat(nil)), s)
	first, _ := r.socket("127.0.0.1")
	for i := range 2 {
		if conn, _ := r.socket("127.0.0.1"); conn == nil {
			t.Fatalf("websocket %d was refused", i+2)
		}
	}
	for range 3 {
		if conn, _ := r.socket("127.0.0.1"); conn != nil {
			t.Error("got more websockets than connections are allowed")
		}
	}
	first.Close()
	testkit.Eventually(t, "there is room after one has closed", func() bool {
		conn, _ := r.socket("127.0.0.1")
		return conn != nil
	})
}

// TestOneAddressHoldsPartOfTheConnections: one address may hold only part of the connections, including websockets, unless it is a
// trusted proxy.
func TestOneAddressHoldsPartOfTheConnections(t *testing.T) {
	for name, test := range map[string]struct {
		trusted []netip.Prefix
		per     int
		want    int
	}{
		"no trusted proxies": {[]netip.Prefix{}, 2, 2},
		"as configured":      {[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, 3, 3},
		"a trusted proxy":    {[]netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, 3, 8},
		"this machine":       {nil, 3, 8},
	} {
		t.Run(name, func(t *testing.T) {
			s := unlimitedSettings()
			s.trusted, s.serve.connections, s.serve.perAddress = test.trusted, 8, test.per
			r := newRig(t, application(t, chat(nil)), s)
			held := 0
			for range 10 {
				if conn, _ := r.socket("127.0.0.2"); conn != nil {
					held++
				}
			}
			if held != test.want {
				t.Errorf("one address holds %d connections, want %d", held, test.want)
			}
			if conn, _ := r.socket("127.0.0.1"); (conn != nil) != (test.want < 8) {
				t.Errorf("another client is accepted: got %v", conn != nil)
			}
		})
	}
}

// TestIdleWebsocketIsClosed: an idle websocket is closed.
func TestIdleWebsocketIsClosed(t *testing.T) {
	s := unlimitedSettings()
	s.opts.WebsocketIdle = 50 * time.Millisecond
	_, reader := newRig(t, application(t, chat(nil)), s).socket("127.0.0.1")
	if text, err := io.ReadAll(reader); len(text) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v, want EOF", text, err)
	}
}

// TestBusyWebsocketStaysOpen: a websocket on which either side sends something now and then is not closed, for many times as long.
func TestBusyWebsocketStaysOpen(t *testing.T) {
	const idle = time.Second
	for _, speaker := range []string{"client", "application"} {
		t.Run(speaker, func(t *testing.T) {
			t.Parallel()
			dots := make(chan bool)
			s := unlimitedSettings()
			s.opts.WebsocketIdle = idle
			conn, reader := newRig(t, application(t, chat(dots)), s).socket("127.0.0.1")
			defer close(dots)
			for i := range 9 {
				<-time.After(idle / 4) // the test is about this time passing
				if speaker == "client" {
					_, _ = io.WriteString(conn, "x")
				} else {
					dots <- true
				}
				if _, err := reader.ReadByte(); err != nil {
					t.Fatalf("part %d: %v", i, err)
				}
			}
		})
	}
}
