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

// chat is an application that takes websockets. It says each byte again that it hears, and the dots that it is told to.
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

// socket opens a websocket from an address of this machine; nil if it is sent away.
func (r *rig) socket(from string) (net.Conn, *bufio.Reader) {
	r.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.Dial("tcp", r.at)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, upgrade) // it may be closed already
	said := bufio.NewReader(conn)
	answer, err := http.ReadResponse(said, nil)
	if err != nil {
		return nil, nil
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		r.t.Fatalf("got %s, want a websocket", answer.Status)
	}
	return conn, said
}

// TestWebsocketsAreCounted: a websocket takes a place among the connections for as long as it lasts.
func TestWebsocketsAreCounted(t *testing.T) {
	s := plenty()
	s.serve.connections = 3
	r := newRig(t, application(t, chat(nil)), s)
	first, _ := r.socket("127.0.0.1")
	for i := range 2 {
		if conn, _ := r.socket("127.0.0.1"); conn == nil {
			t.Fatalf("websocket %d is sent away", i+2)
		}
	}
	for range 3 {
		if conn, _ := r.socket("127.0.0.1"); conn != nil {
			t.Error("there are more websockets than there may be connections")
		}
	}
	first.Close()
	testkit.Eventually(t, "there is room after one has gone", func() bool {
		conn, _ := r.socket("127.0.0.1")
		return conn != nil
	})
}

// TestOneStranger: one address may hold a part of the connections, websockets included, unless it is a trusted proxy's.
func TestOneStranger(t *testing.T) {
	for name, test := range map[string]struct {
		trusted []netip.Prefix
		per     int
		want    int
	}{
		"nobody is trusted": {[]netip.Prefix{}, 2, 2},
		"as said":           {[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, 3, 3},
		"a trusted proxy":   {[]netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, 3, 8},
		"this machine":      {nil, 3, 8},
	} {
		t.Run(name, func(t *testing.T) {
			s := plenty()
			s.trusted, s.serve.connections, s.serve.perAddress = test.trusted, 8, test.per
			r := newRig(t, application(t, chat(nil)), s)
			held := 0
			for range 10 {
				if conn, _ := r.socket("127.0.0.2"); conn != nil {
					held++
				}
			}
			if held != test.want {
				t.Errorf("one stranger holds %d connections, want %d", held, test.want)
			}
			if conn, _ := r.socket("127.0.0.1"); (conn != nil) != (test.want < 8) {
				t.Errorf("somebody else is let in: %v", conn != nil)
			}
		})
	}
}

// TestSilentWebsocket: a websocket on which nothing passes is cut off.
func TestSilentWebsocket(t *testing.T) {
	s := plenty()
	s.opts.WebsocketIdle = 50 * time.Millisecond
	_, said := newRig(t, application(t, chat(nil)), s).socket("127.0.0.1")
	if text, err := io.ReadAll(said); len(text) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v, want the end", text, err)
	}
}

// TestBusyWebsocket: one on which either side says something now and then is not, for many times as long.
func TestBusyWebsocket(t *testing.T) {
	const idle = time.Second
	for _, speaker := range []string{"client", "application"} {
		t.Run(speaker, func(t *testing.T) {
			t.Parallel()
			dots := make(chan bool)
			s := plenty()
			s.opts.WebsocketIdle = idle
			conn, said := newRig(t, application(t, chat(dots)), s).socket("127.0.0.1")
			defer close(dots)
			for i := range 9 {
				<-time.After(idle / 4) // what is tested is that this time passes
				if speaker == "client" {
					_, _ = io.WriteString(conn, "x")
				} else {
					dots <- true
				}
				if _, err := said.ReadByte(); err != nil {
					t.Fatalf("part %d: %v", i, err)
				}
			}
		})
	}
}
