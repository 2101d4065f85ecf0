package resp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// patience is the maximum time for anything on a busy machine.
const patience = 20 * time.Second

// start is the initial time of the tests' clock: the beginning of an hour.
const start = 1_800_000_000_000_000

// policiesText has a quota of 10 per hour from the first request, so that numbers are easy to derive: it resets an hour
// after that. One policy has two limits, one a block list and overrides.
const policiesText = `
policies:
  default:
    limits: [{quota: 10, window: 1h, algorithm: fixed-window, anchor: first}]
  bucket:
    limits: [60/1m token-bucket burst=5]
  lists:
    limits: [10/1h]
    block: [key:mallory]
    allow: [key:health]
    overrides: [{key: vip, unlimited: true}]
  slots:
    limits: [2 in-flight ttl=30s]
`

// world is a server and everything under it.
type world struct {
	clock  *storetest.Clock
	store  *countingStore
	gate   *gate.Gate
	server *resp.Server
	addr   string
	served chan error
}

// countingStore is a store that counts its calls, and can fail.
type countingStore struct {
	*memstore.Store
	applies, ones atomic.Int64
	failing       atomic.Bool
}

var errBroken = errors.New("the store is broken")

func (s *countingStore) Apply(ctx context.Context, batch []store.Request) error {
	s.applies.Add(1)
	if s.failing.Load() {
		for i := range batch {
			batch[i].Err = errBroken
		}
		return errBroken
	}
	return s.Store.Apply(ctx, batch)
}

func (s *countingStore) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error) {
	s.ones.Add(1)
	if s.failing.Load() {
		err = errBroken
		return
	}
	return s.Store.TakeSingle(ctx, limit, key, cost)
}

// newWorld returns a server that does not listen yet.
func newWorld(t testing.TB, opts resp.Options) *world {
	t.Helper()
	w := &world{clock: storetest.NewClock(start), served: make(chan error, 1)}
	store, err := memstore.New(memstore.Options{Now: w.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	w.store = &countingStore{Store: store}
	file, err := config.Parse("policies.yaml", []byte(policiesText))
	if err != nil {
		t.Fatal(err)
	}
	if w.gate, err = gate.New(file, w.store, gate.Options{}); err != nil {
		t.Fatal(err)
	}
	throttle, err := slidegate.New(slidegate.Namespace(w.store, "cl.throttle"))
	if err != nil {
		t.Fatal(err)
	}
	if w.server, err = resp.New(w.gate, throttle, opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.gate.Close() })
	return w
}

// open returns a server that listens on loopback until the test ends.
func open(t testing.TB, opts resp.Options) *world {
	t.Helper()
	w := newWorld(t, opts)
	w.listen(t)
	return w
}

// listen makes the server listen on loopback until the test ends.
func (w *world) listen(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = listener.Addr().String()
	go func() { w.served <- w.server.Serve(listener) }()
	t.Cleanup(func() { w.shutdown(t) })
}

func (w *world) shutdown(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.server.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-w.served; !errors.Is(err, resp.ErrClosed) {
		t.Errorf("Serve: got %v, want ErrClosed", err)
	}
}

// client is a connection on which a test writes and reads bytes.
type client struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

func (w *world) dial(t testing.TB) *client {
	t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// expect reads exactly this text.
func (c *client) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.in, got)
	if string(got[:n]) != want {
		rest, _ := c.in.Peek(min(200, c.in.Buffered()))
		c.t.Fatalf("got %q, want %q (%v); then %q", got[:n], want, err, rest)
	}
}

// expectClosed expects that the server has closed the connection without sending more.
func (c *client) expectClosed() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.in); len(rest) > 0 || errors.Is(err, context.DeadlineExceeded) {
		c.t.Fatalf("got %q and %v, want the connection closed", rest, err)
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		c.t.Fatal("the connection is still open")
	}
}

// readRest reads what the server sends until it closes the connection.
func (c *client) readRest() string {
	c.t.Helper()
	rest, err := io.ReadAll(c.in)
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		c.t.Fatalf("after %q the connection is still open", rest)
	}
	return string(rest)
}

// exchange sends a command and checks the reply. Both are written without line ends: the parts of the reply are separated by
// spaces, unless it is a text, whose parts are given one by one.
func (c *client) exchange(command string, want ...string) {
	c.t.Helper()
	c.send(frame(strings.Fields(command)...))
	c.expect(strings.Join(want, "\r\n") + "\r\n")
}

// frame returns a command as clients send it.
func frame(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// numbers returns an array of integers.
func numbers(n ...int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d", len(n))
	for _, one := range n {
		fmt.Fprintf(&b, "\r\n:%d", one)
	}
	return b.String()
}
