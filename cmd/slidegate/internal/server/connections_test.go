package server_test

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

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestCrowd: thousands who hold a connection and ask nothing, and some who never finish their question, keep nobody from being
// answered.
func TestCrowd(t *testing.T) {
	order := crowdOrder{Idle: 10_000, Slow: 200, IdleRSP: 1000}
	if testing.Short() {
		order = crowdOrder{Idle: 500, Slow: 50, IdleRSP: 100}
	}
	mayOpen(t, order.Idle+order.Slow+order.IdleRSP+500)
	s := start(t, "policies: {default: {limits: [1000000/1h]}}\n", func(o *server.Options) {
		o.SetTimeouts(5*time.Minute, 5*time.Minute, 5*time.Minute, 5*time.Minute) // all stay
	})
	order.HTTP, order.RESP = s.Address("http"), s.Address("resp")
	before := memory()
	leave := startCrowd(t, order)
	t.Logf("%d bytes of memory a connection, of which %d are held", (memory()-before)/int64(order.Idle+order.Slow+order.IdleRSP), order.Idle+order.Slow+order.IdleRSP)
	for i := range 300 {
		if got := s.allow(t, "default", "honest"); got != http.StatusOK {
			t.Fatalf("request %d: %d", i, got)
		}
		if i%10 == 0 {
			http.DefaultClient.CloseIdleConnections() // new ones are let in too
			if got := s.resp(t, "SG.ALLOW default honest"); !strings.HasPrefix(got, "*6\r\n:1\r\n") {
				t.Fatalf("RESP %d: %q", i, got)
			}
		}
	}
	if n := s.connections(t, "slidegate_connections", "http"); n < order.Idle+order.Slow {
		t.Errorf("the door holds %d connections, so this has tested less than it says", n)
	}
	if n := s.connections(t, "slidegate_connections", "resp"); n < order.IdleRSP {
		t.Errorf("the RESP door holds %d connections, so this has tested less than it says", n)
	}
	leave()
	testkit.Eventually(t, "their places are free", func() bool { return s.connections(t, "slidegate_connections", "resp") == 0 })
}

// mayOpen has this process, and those that it starts, open so many files.
func mayOpen(t *testing.T, files int) {
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

// memory is what this process has in use.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// connections reads a metric of a door.
func (s *service) connections(t *testing.T, metric, door string) int {
	t.Helper()
	page := s.ask(t, "admin", "GET", "/metrics", "").body
	found := regexp.MustCompile(metric + `\{door="` + door + `"\} (\S+)`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("there is no %s of %s:\n%s", metric, door, page)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// client is a connection that is held.
type client struct {
	net.Conn
	ping, pong string
}

// connect connects to a door and has itself answered once; nil if it is sent away.
func (s *service) connect(t *testing.T, door string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address(door))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &client{conn, "PING\r\n", "+PONG\r\n"}
	if door == "http" {
		c.ping, c.pong = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "ok\n"
	}
	if !c.answered() {
		return nil
	}
	return c
}

// answered tells whether the door still answers.
func (c *client) answered() bool {
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

// TestMaxConnections: one more than there may be is closed at once, which is counted, the others notice nothing, and when one
// of them leaves there is room again.
func TestMaxConnections(t *testing.T) {
	const most = 5
	s := start(t, plain, func(o *server.Options) { o.MaxConnections = most })
	for _, door := range []string{"http", "resp"} {
		t.Run(door, func(t *testing.T) {
			var clients []*client
			for i := range most {
				c := s.connect(t, door)
				if c == nil {
					t.Fatalf("client %d was sent away", i)
				}
				clients = append(clients, c)
			}
			for i := range 3 {
				if s.connect(t, door) != nil {
					t.Errorf("%d more than there may be: answered", i+1)
				}
			}
			for i, c := range clients {
				if !c.answered() {
					t.Errorf("client %d is not answered any more", i)
				}
			}
			if n := s.connections(t, "slidegate_connections_refused_total", door); n != 3 {
				t.Errorf("%d were counted, not 3", n)
			}
			if n := s.connections(t, "slidegate_connections", door); n != most {
				t.Errorf("%d are held, not %d", n, most)
			}
			clients[0].Close()
			testkit.Eventually(t, "there is room again", func() bool { return s.connect(t, door) != nil })
		})
	}
}

// TestDoorsHaveOneBound: behind the RESP door there is no bound of its own that is lower, and its metrics are with the others.
func TestDoorsHaveOneBound(t *testing.T) {
	s := start(t, plain, nil)
	if got := s.resp(t, "INFO clients"); !strings.Contains(got, "maxclients:65536\r\n") {
		t.Errorf("got %q, want maxclients:65536", got)
	}
	if page := s.ask(t, "admin", "GET", "/metrics", "").body; !strings.Contains(page, `slidegate_resp_commands_total{command="info"} 1`) {
		t.Errorf("the command is not counted:\n%s", page)
	}
}

// TestSlowIsCut: whoever takes too long for a question, or between two, is disconnected.
func TestSlowIsCut(t *testing.T) {
	const short, long = 300 * time.Millisecond, time.Hour
	begin := func(header, request, idle time.Duration) *service {
		return start(t, plain, func(o *server.Options) { o.SetTimeouts(header, request, long, idle) })
	}
	header, request, idle := begin(short, long, long), begin(long, short, long), begin(long, long, short)
	for i, sent := range []struct {
		*service
		door, text string
	}{
		{header, "http", ""}, {header, "http", halves[0]}, {header, "http", halves[1]}, {request, "http", halves[2]},
		{idle, "http", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"}, // and nothing after it
		{header, "grpc", ""}, {header, "grpc", "PRI * HTTP/2.0\r\n"},
	} {
		t.Run(fmt.Sprint(sent.door, i), func(t *testing.T) {
			conn, err := net.Dial("tcp", sent.Address(sent.door))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, sent.text); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			defer func() { <-ended }()
			go func() { // keeping on sending does not help
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
				t.Error("it was not cut")
			}
		})
	}
}
