package service_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestIdleConnectionsKeepOutNoOther: thousands of idle connections, and some that never finish their request, do not keep other
// clients from being served.
func TestIdleConnectionsKeepOutNoOther(t *testing.T) {
	order := crowdSize{Idle: 10_000, Slow: 200, IdleRSP: 1000}
	if testing.Short() {
		order = crowdSize{Idle: 500, Slow: 50, IdleRSP: 100}
	}
	raiseFileLimit(t, order.Idle+order.Slow+order.IdleRSP+500)
	s := start(t, "policies: {default: {limits: [1000000/1h]}}\n", func(o *service.Options) {
		o.SetTimeouts(5*time.Minute, 5*time.Minute, 5*time.Minute, 5*time.Minute) // no connection times out
	})
	order.HTTP, order.RESP = s.Address("http"), s.Address("resp")
	before := memory()
	leave := startCrowd(t, order)
	t.Logf("%d bytes of memory per connection, with %d held", (memory()-before)/int64(order.Idle+order.Slow+order.IdleRSP), order.Idle+order.Slow+order.IdleRSP)
	for i := range 300 {
		if got := s.allow(t, "default", "honest"); got != http.StatusOK {
			t.Fatalf("request %d: got %d, want 200", i, got)
		}
		if i%10 == 0 {
			http.DefaultClient.CloseIdleConnections() // new connections are accepted too
			if got := s.resp(t, "SG.ALLOW default honest"); !strings.HasPrefix(got, "*6\r\n:1\r\n") {
				t.Fatalf("RESP %d: got %q, want it admitted", i, got)
			}
		}
	}
	if n := s.connections(t, "slidegate_connections", "http"); n < order.Idle+order.Slow {
		t.Errorf("the HTTP listener holds %d connections, want more: the test was not effective", n)
	}
	if n := s.connections(t, "slidegate_connections", "resp"); n < order.IdleRSP {
		t.Errorf("the RESP listener holds %d connections, want more: the test was not effective", n)
	}
	leave()
	testkit.Eventually(t, "their connections are closed", func() bool { return s.connections(t, "slidegate_connections", "resp") == 0 })
}

// raiseFileLimit raises this process's limit of open files, also for its children.
func raiseFileLimit(t *testing.T, files int) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur >= uint64(files) {
		return
	}
	limit.Cur, limit.Max = uint64(files), max(limit.Max, uint64(files))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		if os.Getenv("TEST_REQUIRE") != "" {
			t.Fatalf("this process may not open %d files (%v): raise ulimit -n", files, err)
		}
		t.Skipf("SKIPPED: this process may not open %d files (%v): raise ulimit -n, or use -short", files, err)
	}
}

// memory returns the memory in use by this process.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// connections reads a metric of a listener.
func (s *started) connections(t *testing.T, metric, listener string) int {
	t.Helper()
	page := s.send(t, "admin", "GET", "/metrics", "").body
	found := regexp.MustCompile(metric + `\{listener="` + listener + `"\} (\S+)`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no metric %s of %s:\n%s", metric, listener, page)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// client is a connection that is kept open.
type client struct {
	net.Conn
	ping, pong string
}

// connect connects to a listener and sends one request; it returns nil if the connection is refused.
func (s *started) connect(t *testing.T, listener string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address(listener))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &client{conn, testkit.Commands("PING"), "+PONG\r\n"}
	if listener == "http" {
		c.ping, c.pong = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "ok\n"
	}
	if !c.isServed() {
		return nil
	}
	return c
}

// isServed reports whether the connection is still served.
func (c *client) isServed() bool {
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, c.ping); err != nil {
		return false
	}
	var got strings.Builder
	for part := make([]byte, 512); !strings.HasSuffix(got.String(), c.pong); {
		n, err := c.Read(part)
		if err != nil {
			return false
		}
		got.Write(part[:n])
	}
	return true
}

// TestMaxConnections: connections beyond the limit are closed immediately and counted, the others are not affected, and when one
// of them closes there is room again.
func TestMaxConnections(t *testing.T) {
	const most = 5
	s := start(t, plain, func(o *service.Options) { o.MaxConnections = most })
	for _, listener := range []string{"http", "resp"} {
		t.Run(listener, func(t *testing.T) {
			var clients []*client
			for i := range most {
				c := s.connect(t, listener)
				if c == nil {
					t.Fatalf("client %d was refused", i)
				}
				clients = append(clients, c)
			}
			for i := range 3 {
				if s.connect(t, listener) != nil {
					t.Errorf("connection %d beyond the limit was served", i+1)
				}
			}
			for i, c := range clients {
				if !c.isServed() {
					t.Errorf("client %d is no longer served", i)
				}
			}
			if n := s.connections(t, "slidegate_connections_refused_total", listener); n != 3 {
				t.Errorf("got %d refused connections, want 3", n)
			}
			if n := s.connections(t, "slidegate_connections", listener); n != most {
				t.Errorf("got %d open connections, want %d", n, most)
			}
			clients[0].Close()
			testkit.Eventually(t, "there is room again", func() bool { return s.connect(t, listener) != nil })
		})
	}
}

// TestMetricsOfRESP: the metrics of the RESP server are served with the others.
func TestMetricsOfRESP(t *testing.T) {
	s := start(t, plain, nil)
	s.resp(t, "PING")
	if page := s.send(t, "admin", "GET", "/metrics", "").body; !strings.Contains(page, `slidegate_resp_commands_total{command="ping"} 1`) {
		t.Errorf("the command is not counted:\n%s", page)
	}
}

// TestSlowClientsAreDisconnected: clients that take too long for a request, or between two requests, are disconnected.
func TestSlowClientsAreDisconnected(t *testing.T) {
	const short, long = 300 * time.Millisecond, time.Hour
	begin := func(header, request, idle time.Duration) *started {
		return start(t, plain, func(o *service.Options) { o.SetTimeouts(header, request, long, idle) })
	}
	header, request, idle := begin(short, long, long), begin(long, short, long), begin(long, long, short)
	for i, sent := range []struct {
		*started
		listener, text string
	}{
		{header, "http", ""}, {header, "http", halves[0]}, {header, "http", halves[1]}, {request, "http", halves[2]},
		{idle, "http", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"}, // and then nothing
		{header, "grpc", ""}, {header, "grpc", "PRI * HTTP/2.0\r\n"},
	} {
		t.Run(fmt.Sprint(sent.listener, i), func(t *testing.T) {
			conn, err := net.Dial("tcp", sent.Address(sent.listener))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, sent.text); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			defer func() { <-ended }()
			go func() { // continuing to send does not help
				defer close(ended)
				for sent.text == halves[0] {
					if _, err := conn.Write([]byte("x")); err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			_, err = io.Copy(io.Discard, conn) // until it is closed
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
				t.Error("the connection was not closed")
			}
		})
	}
}
