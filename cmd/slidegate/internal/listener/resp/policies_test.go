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
		c.exchange("SG.REFUND default ann 2", numbers(1, 10, 7, 0, hour-minute, 2))
		c.exchange("SG.ALLOWUPTO default ann 100", numbers(1, 10, 0, 0, hour-minute, 7))
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
		c.exchange("SG.POLICIES", "*5", "$7", "default", "$6", "bucket", "$5", "lists", "$5", "slots", "$4", "held")
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
		for _, command := range []string{"sg.allow", "sg.peek", "sg.refund", "sg.charge", "sg.allowupto", "sg.reserve"} {
			for _, cost := range []string{"-1", "x", "1.5", "9007199254740992", "99999999999999999999"} {
				c.exchange(command+" default ann "+cost, wrongCost)
			}
			c.exchange(command, "-ERR wrong number of arguments for '"+command+"' command")
			c.exchange(command+" default", "-ERR wrong number of arguments for '"+command+"' command")
			c.exchange(command+" default ann 1 ID a 2 3 4 5 6", "-ERR wrong number of arguments for '"+command+"' command")
		}
		c.exchange("sg.reset default ann 1", "-ERR wrong number of arguments for 'sg.reset' command")
		for _, command := range []string{"sg.allow nobody ann", "sg.peek nobody ann", "sg.refund nobody ann", "sg.charge nobody ann", "sg.reset nobody ann",
			"sg.allowupto nobody ann 1", "sg.reserve nobody ann 1", `sg.cancel nobody {"version":1}`, `sg.settle nobody {"version":1} 1`} {
			c.send(frame(strings.Fields(command)...))
			line, err := c.in.ReadString('\n')
			if err != nil || !strings.HasPrefix(line, "-ERR unknown policy") || !strings.Contains(line, "bucket") {
				t.Errorf("%s: got %q, %v; want an error that names the policies", command, line, err)
			}
			if strings.Contains(line, "ann") {
				t.Errorf("%s: the error contains the key: %q", command, line)
			}
		}
		w.store.failing.Store(true)
		c.exchange("sg.allow default ann", "-STORE the store is broken")
		c.exchange("sg.reset default ann", "-STORE the store is broken")
	}
}

func TestReservations(t *testing.T) {
	w := open(t, resp.Options{})
	c := w.dial(t)
	reserve := func(cost, remaining int64) string {
		t.Helper()
		c.send(frame("SG.RESERVE", "default", "ann", strconv.FormatInt(cost, 10)))
		c.expect("*8" + strings.TrimPrefix(numbers(1, 10, remaining, 0, hour, cost), "*6") + "\r\n")
		made := c.bulk()
		c.expect(":0\r\n")
		return made
	}
	first := reserve(4, 6)
	if !strings.Contains(first, `"charges":[{`) {
		t.Errorf("got the reservation %q", first)
	}
	for _, repeated := range []int64{0, 1} {
		c.send(frame("SG.SETTLE", "default", first, "1"))
		c.expect(numbers(repeated, 3) + "\r\n")
	}
	c.exchange("SG.PEEK default ann", numbers(1, 10, 9, 0, hour, 0))
	second := reserve(5, 4)
	for i, verb := range []string{"SG.CANCEL", "SG.CANCEL", "SG.RELEASE"} {
		c.send(frame(verb, "default", second))
		c.expect(numbers(int64(min(i, 1)), 5) + "\r\n")
	}
	c.exchange("SG.PEEK default ann", numbers(1, 10, 9, 0, hour, 0))
	c.send(frame("SG.RESERVE", "default", "ann", "10"))
	c.expect("*8" + strings.TrimPrefix(numbers(0, 10, 9, hour, hour, 0), "*6") + "\r\n$-1\r\n:0\r\n")
	wrong := "-ERR reservation: must be the JSON text that SG.RESERVE or SG.ACQUIRE returned"
	c.exchange("SG.SETTLE default {ann 1", wrong)
	c.exchange("SG.CANCEL default ann", wrong)
	c.send(frame("SG.SETTLE", "default", first, "x"))
	c.expect("-ERR cost: must be a whole number from 0 to 9007199254740991\r\n")
	c.send(frame("SG.SETTLE", "default", first, "1", "2", "3")) // one cost, or one per charge
	if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "-ERR invalid reservation") ||
		!strings.Contains(line, "limit=cost") {
		t.Errorf("three costs for one charge: got %q, %v", line, err)
	}
	third := reserve(4, 5)
	for _, costs := range []struct {
		args []string
		want string // how the reply begins
	}{
		{[]string{"other=1"}, "-ERR slidegate: invalid reservation"},
		{[]string{"10/1h fixed-window anchor=first=x"}, "-ERR cost:"},
		{[]string{"10/1h fixed-window anchor=first=1", "2"}, "-ERR cost: give all"},
		{[]string{"10/1h fixed-window anchor=first=1", "10/1h fixed-window anchor=first=1"}, "-ERR slidegate: invalid reservation"},
		{[]string{"10/1h fixed-window anchor=first=2"}, "*2"},
	} {
		c.send(frame(append([]string{"SG.SETTLE", "default", third}, costs.args...)...))
		if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, costs.want) {
			t.Errorf("%v: got %q, %v; want %s", costs.args, line, err, costs.want)
		}
	}
	c.expect(":0\r\n:2\r\n")
	newer := strings.Replace(third, `"version":1`, `"version":3`, 1)
	c.send(frame("SG.CANCEL", "default", newer))
	if line := c.line(); !strings.HasPrefix(line, "-ERR slidegate: invalid reservation: version: must be 1, not 3") {
		t.Errorf("a newer version: got %q, want an error that names it", line)
	}
	c.exchange("SG.PEEK default ann", numbers(1, 10, 7, 0, hour, 0))
}

// Charging is unconditional, even beyond the quota.
func TestChargeCommand(t *testing.T) {
	w := open(t, resp.Options{})
	c := w.dial(t)
	c.exchange("SG.CHARGE default ann", numbers(1, 10, 9, 0, hour, 1))
	c.exchange("sg.charge default ann 12", numbers(1, 10, 0, 0, hour, 12))
	c.exchange("SG.ALLOW default ann", numbers(0, 10, 0, hour, hour, 0))
	c.send(frame("SG.CHARGE", "default", "ann", "0"))
	if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "-ERR invalid cost: must be 1") {
		t.Errorf("charging nothing: got %q, %v", line, err)
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
		"SG.ALLOW default %s x", "SG.PEEK default %s", "SG.REFUND default %s", "PING %s", "SG.RESET default %s", "CL.THROTTLE %s 4 1 1", "NOSUCH %s"}
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

// Options are named after the cost, if there is one, in either case, and each once.
func TestCommandOptions(t *testing.T) {
	for _, batch := range []bool{false, true} {
		w := open(t, resp.Options{Batch: batch})
		c := w.dial(t)
		const hour = 3_600_000_000
		c.exchange("SG.ALLOW default k 9 WAIT 1000", numbers(1, 10, 1, 0, hour, 9))
		c.exchange("SG.ALLOW default k wait 1000 id one", numbers(1, 10, 0, 0, hour, 1))
		const options = "WAIT milliseconds, or ID and an id that is not empty"
		c.exchange("SG.ALLOW default k PLAN pro", "-ERR unknown option 'PLAN'; want "+options)
		c.exchange("SG.ALLOW default k WAIT", "-ERR WAIT: the value is missing; want "+options)
		c.exchange("SG.ALLOW default k 1 WAIT", "-ERR WAIT: the value is missing; want "+options)
		for _, wrong := range []string{"0", "-5", "3600001", "1s", "99999999999999999999"} {
			c.exchange("SG.ALLOW default k WAIT "+wrong, "-ERR WAIT: must be 1 to 3600000 milliseconds, not '"+wrong+"'; leave it out to wait not at all")
		}
		c.exchange("SG.ALLOW default k WAIT 5 wait 6", "-ERR WAIT: given twice; give it once")
		c.exchange("SG.PEEK default k WAIT 1", "-ERR wrong number of arguments for 'sg.peek' command")
		c.exchange("SG.PEEK default k WAIT", "-ERR cost: must be a whole number from 0 to 9007199254740991")
		c.exchange("SG.ALLOW default k WAIT 1000", numbers(0, 10, 0, hour, hour, 0)) // its turn comes later
		c.exchange("SG.RESERVE default k WAIT 5", "-ERR wrong number of arguments for 'sg.reserve' command")
	}
}

// A reservation on a limit with hold is renewed while it is open, and charged when it is settled; a lost one is not renewed.
func TestHolds(t *testing.T) {
	w := open(t, resp.Options{})
	c := w.dial(t)
	const hour = 3_600_000_000
	c.send(frame("SG.RESERVE", "held", "ann", "6"))
	c.expect("*8" + strings.TrimPrefix(numbers(1, 10, 4, 0, thirtySeconds, 6), "*6") + "\r\n")
	made := c.bulk()
	c.expect(":30000000\r\n")
	for range 3 {
		w.clock.Advance(20e6)
		c.send(frame("SG.RENEW", "held", made))
		c.expect(numbers(1, 10, 4, 0, thirtySeconds, 6) + "\r\n")
	}
	c.send(frame("SG.SETTLE", "held", made, "2"))
	c.expect(numbers(0, 4) + "\r\n")
	c.send(frame("SG.RENEW", "held", made))
	c.expect(numbers(0, 10, 8, -1, hour, 0) + "\r\n")
}

// A call with an ID counts once, and is cancelled by it; one that was cancelled first is refused.
func TestCallsWithAnID(t *testing.T) {
	for _, batch := range []bool{false, true} {
		w := open(t, resp.Options{Batch: batch})
		c := w.dial(t)
		const hour = 3_600_000_000
		for range 2 {
			c.exchange("SG.ALLOW default ann 4 ID one", numbers(1, 10, 6, 0, hour, 4))
		}
		c.exchange("SG.ALLOW default ann 4", numbers(1, 10, 2, 0, hour, 4))
		c.exchange("SG.CANCEL default ann ID one", numbers(0, 4))
		c.exchange("SG.CANCEL default ann ID one", numbers(1, 4))
		c.exchange("SG.CANCEL default ann ID early", numbers(0, 0))
		c.exchange("SG.ALLOW default ann 1 ID early", numbers(0, 10, 6, -1, hour, 0))
		c.exchange("SG.ALLOW default ann 1 ID "+strings.Repeat("x", 129), "-ERR invalid id: must have at most 128 bytes, and must not contain \".v1.\"")
		c.exchange("SG.PEEK default ann 1 ID one", "-ERR wrong number of arguments for 'sg.peek' command")
		c.exchange("SG.CANCEL default ann WAIT 5", "-ERR WAIT: not an option of 'sg.cancel'; want ID and an id that is not empty")
		c.exchange("SG.CANCEL default ann 3 ID one", "-ERR wrong number of arguments for 'sg.cancel' command")
		var first string
		for range 2 {
			c.send(frame("SG.RESERVE", "default", "bob", "3", "ID", "two"))
			c.expect("*8" + strings.TrimPrefix(numbers(1, 10, 7, 0, hour, 3), "*6") + "\r\n")
			made := c.bulk()
			c.expect(":0\r\n")
			if first == "" {
				first = made
			}
			if made != first || !strings.Contains(made, `"id":"two"`) {
				t.Errorf("got the reservation %s, want %s again", made, first)
			}
		}
	}
}
