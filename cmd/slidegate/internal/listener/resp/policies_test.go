package resp_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
)

const (
	hour   = int64(time.Hour / time.Microsecond)
	minute = int64(time.Minute / time.Microsecond)
	second = int64(time.Second / time.Microsecond)
)

// The numbers: allowed, quota, remaining, retry after, reset after, granted. The window begins with the first request.
func TestPolicyCommands(t *testing.T) {
	for _, batch := range []bool{false, true} {
		w := open(t, resp.Options{Batch: batch})
		c := w.dial(t)
		c.exchange("SG.PEEK default ann", numbers(1, 10, 10, 0, 0, 0)) // nothing is charged, so nothing was granted
		c.exchange("SG.ALLOW default ann", numbers(1, 10, 9, 0, hour, 1))
		w.clock.Advance(60_000_000)
		c.exchange("sg.allow default ann 4", numbers(1, 10, 5, 0, hour-minute, 4))
		c.exchange("Sg.Allow default ann 6", numbers(0, 10, 5, hour-minute, hour-minute, 0))
		c.exchange("SG.ALLOW default ann 11", numbers(0, 10, 5, -1, hour-minute, 0))
		c.exchange("SG.ALLOW default ann 0", numbers(1, 10, 5, 0, hour-minute, 0))
		c.exchange("SG.PEEK default ann 5", numbers(1, 10, 5, 0, hour-minute, 0))
		c.exchange("SG.PEEK default ann 6", numbers(0, 10, 5, hour-minute, hour-minute, 0))
		c.exchange("SG.ALLOW default bob", numbers(1, 10, 9, 0, hour, 1))
		c.exchange("SG.RESET default ann", "+OK")
		c.exchange("SG.ALLOW default ann 10", numbers(1, 10, 0, 0, hour, 10))
		// A full bucket of 5 that gains one per second.
		c.exchange("SG.ALLOW bucket ann 5", numbers(1, 60, 0, 0, 5*second, 5))
		c.exchange("SG.ALLOW bucket ann 2", numbers(0, 60, 0, 2*second, 5*second, 0))
		// If no limit decides, its numbers are 0.
		c.exchange("SG.ALLOW lists mallory 3", numbers(0, 0, 0, -1, 0, 0))
		c.exchange("SG.ALLOW lists health 3", numbers(1, 0, 0, 0, 0, 3))
		c.exchange("SG.ALLOW lists vip 3", numbers(1, 0, 0, 0, 0, 3))
		c.send(frame("SG.ALLOW", "", "", "1")) // the default policy, and an empty key
		c.expect(numbers(1, 10, 9, 0, hour, 1) + "\r\n")
		c.send(frame("SG.ALLOW", "default", "a\r\n\x00\xff", "1"))
		c.expect(numbers(1, 10, 9, 0, hour, 1) + "\r\n")
	}
}

func TestPolicyErrors(t *testing.T) {
	for _, batch := range []bool{false, true} {
		w := open(t, resp.Options{Batch: batch})
		c := w.dial(t)
		wrongCost := "-ERR cost: must be a whole number from 0 to 9007199254740991"
		for command, most := range map[string]string{"sg.allow": "1 ID b", "sg.peek": "1"} {
			for _, cost := range []string{"-1", "x", "1.5", "9007199254740992", "99999999999999999999"} {
				c.exchange(command+" default ann "+cost, wrongCost)
			}
			c.exchange(command, "-ERR wrong number of arguments for '"+command+"' command")
			c.exchange(command+" default", "-ERR wrong number of arguments for '"+command+"' command")
			c.exchange(command+" default ann "+most+" again", "-ERR wrong number of arguments for '"+command+"' command")
		}
		c.exchange("sg.reset default ann 1", "-ERR wrong number of arguments for 'sg.reset' command")
		for _, command := range []string{"sg.allow nobody ann", "sg.peek nobody ann", "sg.reset nobody ann"} {
			c.send(frame(strings.Fields(command)...))
			line, err := c.in.ReadString('\n')
			if err != nil || !strings.HasPrefix(line, "-ERR unknown policy") || !strings.Contains(line, "bucket") {
				t.Errorf("%s: got %q, %v; want an error that names the policies", command, line, err)
			}
			if strings.Contains(line, "ann") {
				t.Errorf("%s: the error contains the key: %q", command, line)
			}
		}
		c.send(frame("SG.ALLOW", "slots", "ann")) // nobody would release the slot
		if line := c.line(); !strings.HasPrefix(line, "-ERR ") || !strings.Contains(line, "/v1/acquire") || strings.Contains(line, "ann") {
			t.Errorf("a slot: got %q, want an ERR that names /v1/acquire", line)
		}
		c.exchange("SG.PEEK slots ann", numbers(1, 2, 2, 0, 0, 0))
		w.store.failing.Store(true)
		c.exchange("sg.allow default ann", "-STORE the store is broken")
		c.exchange("sg.reset default ann", "-STORE the store is broken")
	}
}

// bulk reads a bulk string.
func (c *client) bulk() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil || line[0] != '$' {
		c.t.Fatalf("got %q, %v, want a text", line, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil {
		c.t.Fatal(err)
	}
	text := make([]byte, n+2)
	if _, err := io.ReadFull(c.in, text); err != nil {
		c.t.Fatal(err)
	}
	return string(text[:n])
}

// A pipeline is one call to the store, as is each part of it between other commands, and every reply is in its place.
func TestBatch(t *testing.T) {
	w := open(t, resp.Options{Batch: true})
	c := w.dial(t)
	c.send(strings.Repeat(frame("SG.ALLOW", "default", "ann"), 12))
	for i := range int64(10) {
		c.expect(numbers(1, 10, 9-i, 0, hour, 1) + "\r\n")
	}
	c.expect(strings.Repeat(numbers(0, 10, 0, hour, hour, 0)+"\r\n", 2))
	if calls := w.store.applies.Load(); calls != 1 || w.store.ones.Load() != 0 {
		t.Errorf("a pipeline of 12: got %d and %d calls to the store, want 1", calls, w.store.ones.Load())
	}
	w.store.applies.Store(0)
	allow := func(key string) string { return frame("SG.ALLOW", "default", key) }
	first := numbers(1, 10, 9, 0, hour, 1) + "\r\n"
	c.send(allow("a") + allow("b") + frame("PING") + allow("c") + allow("d") + frame("SG.ALLOW", "default", "e", "x") +
		allow("e") + frame("NOSUCH") + allow("f") + frame("SG.ALLOW", "default") + allow("g") + frame("QUIT") + allow("h"))
	c.expect(first + first + "+PONG\r\n" + first + first + "-ERR cost: must be a whole number from 0 to 9007199254740991\r\n" +
		first + "-ERR unknown command 'NOSUCH'\r\n" + first +
		"-ERR wrong number of arguments for 'sg.allow' command\r\n" + first + "+OK\r\n")
	c.expectClosed()
	if calls, ones := w.store.applies.Load(), w.store.ones.Load(); calls != 2 || ones != 3 {
		t.Errorf("got %d calls with batches and %d with one, want 2 and 3", calls, ones)
	}
}

// The replies are the same for any commands, however the bytes are split, decided together or not.
func TestBatchChangesNoReply(t *testing.T) {
	one, many := open(t, resp.Options{}), open(t, resp.Options{Batch: true, MaxPipeline: 7})
	commands := []string{"SG.ALLOW default %s", "SG.ALLOW default %s 2", "SG.ALLOW bucket %s", "SG.ALLOW lists %s", "SG.ALLOW nobody %s",
		"SG.ALLOW default %s x", "SG.PEEK default %s", "PING %s", "SG.RESET default %s", "CL.THROTTLE %s 4 1 1", "NOSUCH %s"}
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		var text strings.Builder
		n := rapid.IntRange(1, 40).Draw(t, "commands")
		for range n {
			key := fmt.Sprint("key-", round, rapid.IntRange(0, 2).Draw(t, "key"))
			text.WriteString(frame(strings.Fields(fmt.Sprintf(rapid.SampledFrom(commands).Draw(t, "command"), key))...))
		}
		text.WriteString(frame("ECHO", "the end"))
		got := [2]string{}
		for i, w := range []*world{one, many} {
			conn := dialPlain(t, w)
			cut := rapid.IntRange(1, text.Len()).Draw(t, "cut")
			for _, part := range []string{text.String()[:cut], text.String()[cut:]} {
				if _, err := io.WriteString(conn, part); err != nil {
					t.Fatal(err)
				}
			}
			got[i] = readTo(t, bufio.NewReader(conn), "the end\r\n")
			_ = conn.Close()
		}
		if got[0] != got[1] {
			t.Fatalf("got together:\n%[2]q\nwant as one by one:\n%[1]q", got[0], got[1])
		}
	})
}

// dialPlain connects without a test's cleanup.
func dialPlain(t *rapid.T, w *world) net.Conn {
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// readTo reads until the input ends with this text.
func readTo(t *rapid.T, in *bufio.Reader, end string) string {
	var all strings.Builder
	for !strings.HasSuffix(all.String(), end) {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("got %v after %q", err, all.String())
		}
		all.WriteString(line)
	}
	return all.String()
}

// A call with an ID counts once.
func TestCallsWithAnID(t *testing.T) {
	for _, batch := range []bool{false, true} {
		c := open(t, resp.Options{Batch: batch}).dial(t)
		for range 2 {
			c.exchange("SG.ALLOW default ann 4 ID one", numbers(1, 10, 6, 0, hour, 4))
		}
		c.exchange("SG.ALLOW default ann 4", numbers(1, 10, 2, 0, hour, 4))
		c.exchange("SG.ALLOW default ann id two", numbers(1, 10, 1, 0, hour, 1))
		c.send(frame("SG.ALLOW", "default", "ann", "ID", ""))
		c.expect("-ERR unknown option 'ID'; want [cost] [ID id]\r\n")
		c.exchange("SG.ALLOW default ann PLAN pro", "-ERR unknown option 'PLAN'; want [cost] [ID id]")
		c.exchange("SG.ALLOW default ann ID", "-ERR cost: must be a whole number from 0 to 9007199254740991")
		c.exchange("SG.PEEK default ann ID one", "-ERR wrong number of arguments for 'sg.peek' command")
		c.exchange("SG.ALLOW default ann 1 ID "+strings.Repeat("x", 129), "-ERR invalid id: must have at most 128 bytes, and must not contain \".v1.\"")
	}
}
