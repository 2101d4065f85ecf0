package resp_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
	"github.com/slidegate/slidegate/policy"
)

// A client that violates the protocol gets an error, after the replies to earlier commands, and is disconnected; others
// are not affected.
func TestProtocolErrors(t *testing.T) {
	w := open(t, resp.Options{})
	other := w.dial(t)
	for _, c := range []struct{ send, want string }{
		{"*2\r\n$4\r\nECHO\r\n$536870912\r\n", "invalid bulk length"}, // 512 MiB
		{"*1\r\n$65537\r\n", "invalid bulk length"},
		{"*1\r\n$-5\r\n", "invalid bulk length"},
		{"*1000000\r\n", "invalid multibulk length"},
		{"*129\r\n", "invalid multibulk length"},
		{"*x\r\n", "invalid multibulk length"},
		{"*1\r\n:1\r\n", "expected '$', got ':'"},
		{"*1\r\n$4\r\nPINGPING", "expected CRLF after a bulk string"},
		{"*2\r\n$65530\r\n" + strings.Repeat("x", 65530) + "\r\n$65530\r\n", "too big command"},
		{strings.Repeat("x", 70_000), "expected '*', got 'x'"},
		{"PING\r\n", "expected '*', got 'P'"},
	} {
		broken := w.dial(t)
		go func() { _, _ = io.WriteString(broken.Conn, frame("PING")+c.send) }() // the connection may end before all is sent
		broken.expect("+PONG\r\n-ERR Protocol error: " + c.want + "\r\n")
		other.exchange("PING", "+PONG")
	}
	browser := w.dial(t)
	browser.send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSG.RESET default ann\r\n")
	browser.expect("-ERR Protocol error: expected '*', got 'P'\r\n")
	browser.expectClosed()
	big := strings.Repeat("k", 65_536) // the maximum size
	other.send(frame("SG.ALLOW", "default", big))
	other.expect(numbers(1, 10, 9, 0, hour, 1) + "\r\n")
}

// pipes is a listener whose connections are in memory, so that their deadlines follow a test's clock.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accept:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(t testing.TB) *client {
	ours, theirs := net.Pipe()
	p.accept <- theirs
	return &client{t, ours, bufio.NewReader(ours)}
}

// inBubble runs a server under a fake clock.
func inBubble(t *testing.T, opts resp.Options, test func(t *testing.T, w *world, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newWorld(t, opts), newPipes()
		go func() { w.served <- w.server.Serve(p) }()
		test(t, w, p)
		w.shutdown(t)
	})
}

// alive reports whether the server still holds the connection. The client must have nothing to read.
func (c *client) alive() bool {
	synctest.Wait()
	_ = c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := c.in.Peek(1)
	_ = c.SetReadDeadline(time.Time{})
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestSlowCommand(t *testing.T) {
	inBubble(t, resp.Options{IdleTimeout: time.Hour}, func(t *testing.T, w *world, p *pipes) {
		c := p.dial(t)
		time.Sleep(50 * time.Minute) // nothing has begun
		for range 2 {
			c.send("*1\r\n$4\r\nPI")
			time.Sleep(9 * time.Second)
			if !c.alive() {
				t.Fatal("ended too early")
			}
			c.send("NG\r\n*1\r\n$4") // and another begins, with its own time
			c.expect("+PONG\r\n")
			time.Sleep(9 * time.Second)
			if !c.alive() {
				t.Fatal("the second command did not get its own time")
			}
			c.send("\r\nPING\r\n")
			c.expect("+PONG\r\n")
			time.Sleep(50 * time.Minute)
		}
		c.send("*")
		for range 9 { // sending slowly does not help
			time.Sleep(time.Second)
			c.send("0")
		}
		if !c.alive() {
			t.Error("ended too early")
		}
		time.Sleep(time.Second)
		if c.alive() {
			t.Error("the server still waits for a command that takes longer than 10 s")
		}
		_ = c.Close()
	})
}

func TestIdle(t *testing.T) {
	inBubble(t, resp.Options{IdleTimeout: 8 * time.Minute}, func(t *testing.T, w *world, p *pipes) {
		c := p.dial(t)
		for range 5 {
			time.Sleep(7*time.Minute - time.Second) // steps of an eighth never cut more
			c.exchange("PING", "+PONG")
		}
		if time.Sleep(7*time.Minute - time.Second); !c.alive() {
			t.Error("ended too early")
		}
		if time.Sleep(time.Minute + 2*time.Second); c.alive() {
			t.Error("idle, and still connected")
		}
		_ = c.Close()
	})
}

// heap returns how much memory is in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Clients that send and never read: each takes a bounded amount of memory, is disconnected after WriteTimeout, and
// others are not affected. Each sends commands whose replies are 500 KiB or more.
func TestClientsThatNeverRead(t *testing.T) {
	const clients = 200
	inBubble(t, resp.Options{WriteTimeout: 10 * time.Second}, func(t *testing.T, w *world, p *pipes) {
		good := p.dial(t)
		good.exchange("PING", "+PONG")
		before := heap()
		bad := make([]*client, clients)
		for i := range bad {
			bad[i] = p.dial(t)
			go func() { _, _ = io.WriteString(bad[i].Conn, strings.Repeat(frame("COMMAND"), 4000)) }()
		}
		synctest.Wait() // all that can happen has happened
		grown := int64(heap()) - int64(before)
		t.Logf("%d KiB each", grown/clients/1024)
		if grown > clients*200<<10 {
			t.Errorf("got %d clients that do not read with %d KiB each", clients, grown/clients/1024)
		}
		for range 100 {
			good.exchange("PING", "+PONG")
		}
		time.Sleep(9 * time.Second)
		if n := w.connected(); n != clients+1 {
			t.Errorf("got %d connected, want %d: their time is not over", n, clients+1)
		}
		time.Sleep(2 * time.Second)
		if n := w.connected(); n != 1 {
			t.Errorf("got %d connected, want 1", n)
		}
		for _, c := range bad {
			_ = c.Close()
		}
		_ = good.Close()
	})
}

// connected returns how many clients there are, once all that can happen has happened.
func (w *world) connected() int {
	synctest.Wait()
	return w.server.Connected()
}

// The same over real connections, whose buffers are large: the server must disconnect the client, and serve others at
// the same time.
func TestSlowClientsDoNotAffectOthers(t *testing.T) {
	w := open(t, resp.Options{WriteTimeout: time.Second})
	for range 200 {
		w.dial(t).send("*3\r\n$8\r\nSG.ALL") // and no more
	}
	never := w.dial(t)
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := io.WriteString(never.Conn, strings.Repeat(frame("COMMAND"), 1000)); err != nil {
				ended <- err
				return
			}
		}
	}()
	good := w.dial(t)
	for i := int64(9); i >= 0; i-- {
		good.exchange("SG.ALLOW default ann", numbers(1, 10, i, 0, hour, 1))
	}
	if err := <-ended; errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Errorf("a client that never reads was not disconnected: %v", err)
	}
	good.exchange("PING", "+PONG")
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// slowPolicies are policies that respond slowly.
type slowPolicies struct {
	*gate.Gate
	entered, leave chan struct{}
}

func (s *slowPolicies) Do(ctx context.Context, op gate.Op, req gate.Request) (policy.Decision, error) {
	s.entered <- struct{}{}
	select {
	case <-s.leave:
		return s.Gate.Do(ctx, op, req)
	case <-ctx.Done():
		return policy.Decision{}, ctx.Err()
	}
}

func slowWorld(t *testing.T) (*world, *slowPolicies) {
	w := newWorld(t, resp.Options{})
	slow := &slowPolicies{w.gate, make(chan struct{}, 10), make(chan struct{})}
	server, err := resp.New(slow, nil, resp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.server = server
	return w, slow
}

func TestShutdownDrains(t *testing.T) {
	w, slow := slowWorld(t)
	w.listen(t)
	idle, half, busy := w.dial(t), w.dial(t), w.dial(t)
	idle.exchange("PING", "+PONG")
	half.exchange("PING", "+PONG")
	half.send("*1\r\n$4\r\nPI")
	busy.send(strings.Repeat(frame("SG.ALLOW", "default", "ann"), 3))
	<-slow.entered
	over := make(chan error)
	go func() { over <- w.server.Shutdown(context.Background()) }()
	idle.expectClosed()
	half.expectClosed()
	if _, err := net.Dial("tcp", w.addr); err == nil {
		t.Error("a client was accepted")
	}
	select {
	case err := <-over:
		t.Fatalf("Shutdown returned %v before the last reply", err)
	default:
	}
	close(slow.leave)
	busy.expect(numbers(1, 10, 9, 0, hour, 1) + "\r\n" + numbers(1, 10, 8, 0, hour, 1) + "\r\n" + numbers(1, 10, 7, 0, hour, 1) + "\r\n")
	busy.expectClosed()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if err := w.server.Serve(newPipes()); !errors.Is(err, resp.ErrClosed) {
		t.Errorf("Serve after Shutdown: got %v, want ErrClosed", err)
	}
}

// Shutdown does not wait for a busy client once it has its replies, even if another command has begun.
func TestShutdownDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, slow := slowWorld(t)
		p := newPipes()
		go func() { w.served <- w.server.Serve(p) }()
		c := p.dial(t)
		c.send(frame("SG.ALLOW", "default", "ann") + "*1\r\n$4\r\nPI")
		<-slow.entered
		start, over := time.Now(), make(chan error)
		go func() { over <- w.server.Shutdown(context.Background()) }()
		synctest.Wait()
		close(slow.leave)
		c.expect(numbers(1, 10, 9, 0, hour, 1) + "\r\n")
		if err := <-over; err != nil || time.Since(start) != 0 {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		<-w.served
		_ = c.Close()
	})
}

func TestShutdownEnds(t *testing.T) {
	w, slow := slowWorld(t)
	p := newPipes()
	go func() { w.served <- w.server.Serve(p) }()
	c := p.dial(t)
	defer c.Close()
	c.send(frame("SG.ALLOW", "default", "ann"))
	<-slow.entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: got %v, want the context's error", err)
	}
	if err := <-w.served; !errors.Is(err, resp.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if err := w.server.Shutdown(context.Background()); err != nil {
		t.Errorf("a second Shutdown: got %v, want no error", err)
	}
}

// A pipeline longer than MaxPipeline, and one with large replies, are answered completely.
func TestLongPipelines(t *testing.T) {
	w := open(t, resp.Options{MaxPipeline: 3, Batch: true})
	c := w.dial(t)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(c.Conn, strings.Repeat(frame("SG.ALLOW", "bucket", "ann", "0"), 1000)+strings.Repeat(frame("ECHO", strings.Repeat("x", 60_000)), 20))
	}()
	for range 1000 {
		c.expect(numbers(1, 60, 5, 0, 0, 0) + "\r\n")
	}
	for range 20 {
		if got := c.bulk(); got != strings.Repeat("x", 60_000) {
			t.Fatalf("got %d bytes", len(got))
		}
	}
	<-sent
}
