package proxy_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/fields"
)

// TestDrain: at shutdown, a request in progress gets its response, and new connections are refused.
func TestDrain(t *testing.T) {
	came, finish := make(chan bool, 1), make(chan bool)
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		came <- true
		<-finish
		fmt.Fprint(w, "whole")
	})
	r := newRig(t, to, unlimitedSettings())
	got := make(chan string, 1)
	go func() {
		answer, err := r.http.Get("http://" + r.at + "/")
		if err != nil {
			got <- err.Error()
			return
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		got <- string(text)
	}()
	receive(t, "the request arrives", came)
	stopped := make(chan bool)
	go func() {
		r.stop()
		close(stopped)
	}()
	testkit.Eventually(t, "it no longer listens", func() bool {
		conn, err := net.Dial("tcp", r.at)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	close(finish)
	if text := receive(t, "the response", got); text != "whole" {
		t.Errorf("got response %q, want whole", text)
	}
	receive(t, "the shutdown", stopped)
}

// TestDrainAbortsEndlessRequests: requests that do not end by themselves are aborted, including event streams and websockets.
func TestDrainAbortsEndlessRequests(t *testing.T) {
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
	})
	s := unlimitedSettings()
	s.serve.drain = 20 * time.Millisecond
	r := newRig(t, to, s)
	conn := r.dial()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	socket := bufio.NewReader(conn)
	switched, err := http.ReadResponse(socket, nil)
	if err != nil || switched.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %+v, %v, want a websocket", switched, err)
	}
	events, err := r.http.Get("http://" + r.at + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	r.stop()
	if text, err := io.ReadAll(socket); len(text) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the websocket: got %q, %v", text, err)
	}
	if _, err := io.ReadAll(events.Body); err == nil {
		t.Error("the event stream ended as if it were complete")
	}
}

// TestSlowHeaderIsDisconnected and the following tests: a client that keeps the proxy waiting is disconnected.
func TestSlowHeaderIsDisconnected(t *testing.T) {
	s := unlimitedSettings()
	s.opts.Idle = 50 * time.Millisecond
	conn := newRig(t, application(t, echo), s).dial()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost:")
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("not closed: got %v", err)
	}
}

func TestSlowBodyIsDisconnected(t *testing.T) {
	s := unlimitedSettings()
	s.opts.Idle = 50 * time.Millisecond
	to := application(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	conn := newRig(t, to, s).dial()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nslow")
	text, err := io.ReadAll(conn)
	if err != nil || len(text) > 0 && !strings.HasPrefix(string(text), "HTTP/1.1 400") { // it may be too late for a response
		t.Errorf("got %q, %v, want 400 or nothing", text, err)
	}
}

// TestSlowBodyOfRefused: a client cannot hold a connection with a body that is not read.
func TestSlowBodyOfRefused(t *testing.T) {
	p := policy("p", "", "1/1h")
	p.Cost, _ = fields.ParseCost("2")
	s := settings{policies: []config.Policy{p}}
	s.opts.Idle = 50 * time.Millisecond
	conn := newRig(t, application(t, echo), s).dial()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nslow")
	text, err := io.ReadAll(conn)
	if err != nil || len(text) > 0 && !strings.HasPrefix(string(text), "HTTP/1.1 429") { // on a slow machine it may count as a slow header
		t.Errorf("got %q, %v, want 429 or nothing", text, err)
	}
}

// TestSlowReaderIsDisconnected: a client that reads nothing is disconnected, and the application notices.
func TestSlowReaderIsDisconnected(t *testing.T) {
	gone := make(chan bool, 1)
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		part := make([]byte, 1<<20)
		for {
			if _, err := w.Write(part); err != nil {
				gone <- true
				return
			}
		}
	})
	s := unlimitedSettings()
	s.opts.Idle = time.Second
	conn := newRig(t, to, s).dial()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	receive(t, "the end of the response", gone)
}

// TestSlowApplicationIsAwaited: an application may be silent for longer than a client may, before, within and before the end of its
// response, and the connection remains usable for the next request.
func TestSlowApplicationIsAwaited(t *testing.T) {
	const idle = time.Second
	to := application(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		pause := func() {
			if r.URL.Path != "/slow" {
				return
			}
			select {
			case <-time.After(2*idle + idle/20): // the test is about this time passing
			case <-r.Context().Done():
				t.Error("the client was treated as disconnected")
			}
		}
		pause()
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "first ")
		w.(http.Flusher).Flush()
		pause()
		fmt.Fprint(w, "second")
		w.(http.Flusher).Flush()
		pause()
	})
	for protocol, scheme := range map[int]string{1: "http://", 2: "https://"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			s := unlimitedSettings()
			s.opts.Idle = idle
			var believe *tls.Config
			if protocol == 2 {
				s.serve.secure, believe = certificate(t)
			}
			r := newRig(t, to, s)
			transport := r.http.Transport.(*http.Transport)
			transport.TLSClientConfig, transport.ForceAttemptHTTP2 = believe, protocol == 2
			for _, path := range []string{"/slow", "/quick"} {
				got, err := r.http.Post(scheme+r.at+path, "text/plain", strings.NewReader("body"))
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(got.Body)
				got.Body.Close()
				if err != nil || string(text) != "first second" || got.ProtoMajor != protocol {
					t.Errorf("%s: got %s %q, %v, want \"first second\" over HTTP/%d", path, got.Proto, text, err, protocol)
				}
			}
		})
	}
}

// certificate returns TLS configurations for a server named example.com and for a client that trusts it.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	made := httptest.NewTLSServer(nil)
	defer made.Close()
	client = made.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	client.ServerName = "example.com"
	return &tls.Config{Certificates: made.TLS.Certificates}, client
}

func TestForwardedProtoOfTLS(t *testing.T) {
	s := unlimitedSettings()
	var believe *tls.Config
	s.serve.secure, believe = certificate(t)
	r := newRig(t, application(t, echo), s)
	r.http.Transport.(*http.Transport).TLSClientConfig = believe
	got, err := r.http.Get("https://" + r.at + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if text, _ := io.ReadAll(got.Body); !strings.Contains(string(text), "proto=https ") {
		t.Errorf("the application saw %s, want proto=https", text)
	}
}

func TestLargeHead(t *testing.T) {
	r := newRig(t, application(t, echo), unlimitedSettings())
	if got := r.send("GET", "/", "X-Large", strings.Repeat("x", 24<<10)); got.StatusCode != 200 {
		t.Errorf("24 KiB: got %s, want 200", got.Status)
	}
	if got := r.sendRaw("GET / HTTP/1.1\r\nHost: h\r\nX-Large: " + strings.Repeat("x", 48<<10)); got.StatusCode != 431 {
		t.Errorf("48 KiB: got %s, want 431", got.Status)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	s := unlimitedSettings()
	s.serve.connections = 2
	r := newRig(t, application(t, echo), s)
	exchange := func(conn net.Conn) error {
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if err != nil {
			return err
		}
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, got.Body)
		return err
	}
	first, second, third := r.dial(), r.dial(), r.dial()
	for i, conn := range []net.Conn{first, second} {
		if err := exchange(conn); err != nil {
			t.Errorf("connection %d: got %v, want a response", i, err)
		}
	}
	if err := exchange(third); err == nil {
		t.Error("a third connection is served")
	}
	first.Close()
	testkit.Eventually(t, "there is room after one has closed", func() bool { return exchange(r.dial()) == nil })
	if err := exchange(second); err != nil {
		t.Errorf("the second, later: got %v", err)
	}
}

func TestClosedListener(t *testing.T) {
	r := newRig(t, application(t, echo), unlimitedSettings())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := r.proxy.NewServer(nil, nil).Serve(listener); err == nil || !strings.HasPrefix(err.Error(), "proxy: ") {
		t.Errorf("a closed listener: got %v", err)
	}
}
