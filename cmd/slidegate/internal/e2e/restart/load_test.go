package restart_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

const clients = 32

// load is a set of clients that together send requests at a rate, and never retry. They keep their connections, and reconnect only
// if a response announced that it was the last one, or after perConnection requests: a request that net/http or nginx would retry counts
// as failed here.
type load struct {
	address       func() string // for the next connection
	perSecond     int
	perConnection int // 0 means any number
	request       string
	judge         func(began time.Time, response *http.Response, text string) error

	began    time.Time
	requests atomic.Int64
	end      chan struct{}
	all      sync.WaitGroup

	mu     sync.Mutex
	failed []string
	last   int64 // responses that were the last ones of their connections
}

// startLoad starts sending 2,000 requests a second to an application behind an address.
func startLoad(t *testing.T, address string) *load {
	t.Helper()
	return (&load{
		address: func() string { return address }, perSecond: 2000, request: "POST /buy HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody",
		judge: func(_ time.Time, response *http.Response, text string) error {
			switch {
			case response.StatusCode != http.StatusOK || text != "hello":
				return fmt.Errorf("status %d, %q", response.StatusCode, text)
			case response.Header.Get("RateLimit") == "":
				return fmt.Errorf("status %d: the service did not decide", response.StatusCode) // the proxy admitted it without a decision
			}
			return nil
		},
	}).start(t)
}

// start starts sending requests.
func (l *load) start(t *testing.T) *load {
	t.Helper()
	l.began, l.end = time.Now(), make(chan struct{})
	for i := range clients {
		l.all.Go(func() { l.client(i) })
	}
	t.Cleanup(l.stop)
	testkit.Eventually(t, "clients are answered", func() bool { return l.requests.Load() > clients })
	return l
}

func (l *load) stop() {
	select {
	case <-l.end:
	default:
		close(l.end)
	}
	l.all.Wait()
}

// check stops the load, and fails the test if a request failed.
func (l *load) check(t *testing.T) {
	t.Helper()
	took := time.Since(l.began)
	l.stop()
	t.Logf("%d requests in %v, %.0f a second, %d failed, %d connections ended by a response",
		l.requests.Load(), took.Round(time.Millisecond), float64(l.requests.Load())/took.Seconds(), len(l.failed), l.last)
	for _, why := range l.failed[:min(10, len(l.failed))] {
		t.Error(why)
	}
}

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, fmt.Sprintf("after %v: ", time.Since(l.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// client sends requests at fixed times, as independent clients do; requests that are late are sent at once.
func (l *load) client(number int) {
	between := time.Second * clients / time.Duration(l.perSecond)
	next := l.began.Add(between * time.Duration(number) / clients)
	var conn *connection
	defer func() { conn.close() }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(next))
		select {
		case <-l.end:
			return
		case <-timer.C:
		}
		next = next.Add(between)
		conn = l.send(conn)
		l.requests.Add(1)
	}
}

// connection is a connection that is kept open.
type connection struct {
	net.Conn
	in   *bufio.Reader
	used time.Time // when the last response arrived; zero if none did
	sent int
}

// idle returns how long a connection had been idle.
func (c *connection) idle(at time.Time) string {
	if c.used.IsZero() {
		return "ever"
	}
	return at.Sub(c.used).String()
}

func (c *connection) close() {
	if c != nil {
		_ = c.Close()
	}
}

// send sends a request, and returns the connection for the next one, or nil if that needs a new one.
func (l *load) send(conn *connection) *connection {
	if conn == nil {
		dialed, err := net.DialTimeout("tcp", l.address(), testkit.Patience)
		if err != nil {
			l.fail("connect: %v", err)
			return nil
		}
		conn = &connection{Conn: dialed, in: bufio.NewReader(dialed)}
	}
	began := time.Now()
	_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
	if _, err := io.WriteString(conn, l.request); err != nil {
		l.fail("send: %v", err)
		conn.close()
		return nil
	}
	response, err := http.ReadResponse(conn.in, nil)
	if err != nil {
		l.fail("response: %v, on a connection that was idle for %v", err, conn.idle(began))
		conn.close()
		return nil
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err == nil {
		err = l.judge(began, response, string(text))
	}
	if err != nil {
		l.fail("%v", err)
	}
	conn.sent++
	if !response.Close && conn.sent != l.perConnection {
		conn.used = time.Now()
		return conn
	}
	conn.close()
	if !response.Close {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return nil
}
