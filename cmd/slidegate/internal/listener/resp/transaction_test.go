package resp_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// oneByOneAndBatched runs a test with SG.ALLOWs decided one by one and together.
func oneByOneAndBatched(t *testing.T, opts resp.Options, test func(t *testing.T, w *world)) {
	for _, batch := range []bool{false, true} {
		opts.Batch = batch
		test(t, open(t, opts))
	}
}

// checkUsed checks how many of ten units a key has used.
func (w *world) checkUsed(t *testing.T, key string, want int64) {
	t.Helper()
	reset := int64(hour)
	if want == 0 {
		reset = 0
	}
	w.dial(t).exchange("SG.PEEK default "+key, numbers(1, 10, 10-want, 0, reset, 0))
}

func TestTransaction(t *testing.T) {
	oneByOneAndBatched(t, resp.Options{}, func(t *testing.T, w *world) {
		c := w.dial(t)
		for range 2 { // the second continues after the first
			c.exchange("multi", "+OK")
			for range 3 {
				c.exchange("SG.ALLOW default ann", "+QUEUED")
			}
			c.exchange("SG.ALLOW nobody ann", "+QUEUED") // errors found only when it runs are replies, as in Redis
			c.exchange("SG.PEEK default bob 2", "+QUEUED")
			w.checkUsed(t, "bob", 0)
			c.send(frame("EXEC"))
			if got := c.line(); got != "*5\r\n" {
				t.Fatalf("EXEC: got %q, want \"*5\\r\\n\"", got)
			}
			for range 3 {
				if got := c.line(); got != "*6\r\n" {
					t.Fatalf("got the reply %q", got)
				}
				for range 6 {
					c.line()
				}
			}
			if got := c.line(); !strings.HasPrefix(got, "-ERR unknown policy") {
				t.Fatalf("an unknown policy: got %q", got)
			}
			c.expect(numbers(1, 10, 10, 0, 0, 0) + "\r\n")
		}
		w.checkUsed(t, "ann", 6)
		c.exchange("PING", "+PONG")
		c.exchange("EXEC", "-ERR EXEC without MULTI") // and not the last command
	})
}

// As clients send it: in one piece, followed by more.
func TestTransactionInOnePiece(t *testing.T) {
	oneByOneAndBatched(t, resp.Options{MaxPipeline: 2}, func(t *testing.T, w *world) {
		c := w.dial(t)
		one := frame("SG.ALLOW", "default", "ann")
		c.send(one + frame("MULTI") + one + one + one + frame("EXEC") + one)
		answer := func(left int64) string { return numbers(1, 10, left, 0, hour, 1) + "\r\n" }
		c.expect(answer(9) + "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n" + answer(8) + answer(7) + answer(6) + answer(5))
	})
}

const aborted = "-EXECABORT Transaction discarded because of previous errors."

// An error while commands are queued makes EXEC run none of them.
func TestTransactionAborted(t *testing.T) {
	oneByOneAndBatched(t, resp.Options{}, func(t *testing.T, w *world) {
		for _, c := range []struct{ wrong, tooMany string }{
			{"NOSUCH a", "-ERR unknown command 'NOSUCH'"},
			{"SG.ALLOW default", "-ERR wrong number of arguments for 'sg.allow' command"},
			{"SG.ALLOW default ann 1 ID a 2 3 4 5 6", "-ERR wrong number of arguments for 'sg.allow' command"},
			{"ECHO", "-ERR wrong number of arguments for 'echo' command"},
			{"DISCARD now", "-ERR wrong number of arguments for 'discard' command"},
			{"MULTI twice", "-ERR wrong number of arguments for 'multi' command"},
			{"WATCH ann", "-ERR WATCH inside MULTI is not allowed"},
		} {
			client := w.dial(t)
			client.exchange("MULTI", "+OK")
			client.exchange("SG.ALLOW default ann", "+QUEUED")
			client.exchange(c.wrong, c.tooMany)
			client.exchange("SG.ALLOW default ann", "+QUEUED")
			client.exchange("EXEC", aborted)
			client.exchange("EXEC", "-ERR EXEC without MULTI")
			client.exchange("MULTI", "+OK") // the next transaction is not affected
			client.exchange("PING", "+QUEUED")
			client.exchange("EXEC", "*1", "+PONG")
		}
		w.checkUsed(t, "ann", 0)
	})
}

func TestTransactionEnds(t *testing.T) {
	oneByOneAndBatched(t, resp.Options{}, func(t *testing.T, w *world) {
		c := w.dial(t)
		begin := func() {
			t.Helper()
			c.exchange("MULTI", "+OK")
			c.exchange("SG.ALLOW default ann", "+QUEUED")
		}
		c.exchange("EXEC", "-ERR EXEC without MULTI")
		c.exchange("DISCARD", "-ERR DISCARD without MULTI")
		c.exchange("WATCH ann", "-ERR WATCH is not supported: every command is decided separately; leave it out")
		begin()
		c.exchange("DISCARD", "+OK")
		c.exchange("DISCARD", "-ERR DISCARD without MULTI")
		begin()
		c.exchange("RESET", "+RESET")
		c.exchange("EXEC", "-ERR EXEC without MULTI")
		begin()
		c.exchange("EXEC now", "-ERR wrong number of arguments for 'exec' command") // which ends it, as in Redis
		c.exchange("EXEC", "-ERR EXEC without MULTI")
		c.exchange("MULTI", "+OK")
		c.exchange("EXEC", "*0")
		begin()
		c.exchange("QUIT", "+OK")
		c.expectClosed()
		c = w.dial(t)
		begin()
		_ = c.Close()
		w.checkUsed(t, "ann", 0)
		c = w.dial(t)
		begin()
		c.exchange("MULTI", "-ERR MULTI calls can not be nested")
		c.exchange("PING", "+QUEUED")
		c.exchange("EXEC", "*2", numbers(1, 10, 9, 0, hour, 1), "+PONG")
	})
}

// AUTH and HELLO are queued and run by EXEC, as in Redis.
func TestTransactionSession(t *testing.T) {
	w := open(t, resp.Options{Tokens: []string{"token"}})
	c := w.dial(t)
	c.exchange("MULTI", "-NOAUTH Authentication required.")
	c.exchange("EXEC", "-NOAUTH Authentication required.")
	c.exchange("AUTH token", "+OK")
	c.exchange("MULTI", "+OK")
	c.exchange("AUTH wrong", "+QUEUED")
	c.exchange("CLIENT GETNAME", "+QUEUED")
	c.exchange("HELLO 3", "+QUEUED")
	c.exchange("CLIENT GETNAME", "+QUEUED")
	c.send(frame("EXEC"))
	c.expect("*4\r\n-WRONGPASS invalid username-password pair or user is disabled.\r\n$-1\r\n%7\r\n")
	for line := ""; line != "_\r\n"; {
		line = c.line()
	}
	c.exchange("MULTI", "+OK") // in RESP3
	c.exchange("SG.ALLOW default ann", "+QUEUED")
	c.exchange("EXEC", "*1", numbers(1, 10, 9, 0, hour, 1))
	c.exchange("MULTI", "+OK")
	c.exchange("RESET", "+RESET")
	c.exchange("EXEC", "-NOAUTH Authentication required.")
}

// What a connection holds until EXEC is bounded in bytes, also for commands without arguments; beyond that nothing is charged.
func TestTransactionBounds(t *testing.T) {
	w := open(t, resp.Options{})
	play := func(t *testing.T, one string, fit, sent int, tooMany string) {
		c := w.dial(t)
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = c.Conn.Write([]byte(frame("MULTI") + strings.Repeat(one, sent) + frame("EXEC") + frame("PING")))
		}()
		c.expect("+OK\r\n")
		for i := range sent {
			want := "+QUEUED\r\n"
			if i == fit {
				want = tooMany + "\r\n"
			}
			if got := c.line(); got != want {
				t.Fatalf("%d: got %q, want %q", i, got, want)
			}
		}
		c.expect(aborted + "\r\n+PONG\r\n")
		<-written
		w.checkUsed(t, "ann", 0)
	}
	const tooMany = "-ERR the commands of a transaction can have at most 1048576 bytes; send fewer, or a pipeline without MULTI"
	play(t, frame("PING"), 1<<20/(24+4+8), 29_140, tooMany)
	large := frame("SG.ALLOW", "default", strings.Repeat("k", 60_000))
	play(t, large, 17, 20, tooMany)
	empty := frame(append([]string{"COMMAND", "DOCS"}, make([]string, 100)...)...) // empty arguments are not free
	play(t, empty, 1232, 1300, tooMany)

	c := w.dial(t) // all that fit are run, with replies larger than one write
	c.exchange("MULTI", "+OK")
	c.send(strings.Repeat(frame("ECHO", strings.Repeat("x", 9_000)), 100))
	c.expect(strings.Repeat("+QUEUED\r\n", 100))
	c.exchange("EXEC", "*100")
	for range 100 {
		if got := c.bulk(); got != strings.Repeat("x", 9_000) {
			t.Fatalf("got %d bytes", len(got))
		}
	}
}

// All connections together are bounded too, and what one releases is available to others.
func TestTransactionsOfAll(t *testing.T) {
	w := open(t, resp.Options{})
	large := strings.Repeat(frame("SG.ALLOW", "default", strings.Repeat("k", 60_000)), 17)
	queued := "+OK\r\n" + strings.Repeat("+QUEUED\r\n", 17)
	var full []*client
	for range 65 { // 1,020,952 bytes each
		c := w.dial(t)
		c.send(frame("MULTI") + large)
		c.expect(queued)
		full = append(full, c)
	}
	late := w.dial(t)
	try := func(want string) {
		t.Helper()
		late.exchange("MULTI", "+OK")
		late.send(large)
		got := ""
		for range 17 {
			if line := late.line(); line != "+QUEUED\r\n" {
				got += line
			}
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		late.exchange("DISCARD", "+OK")
	}
	const tooMany = "-ERR the transactions of all clients can have at most 67108864 bytes; send EXEC sooner, or a pipeline without MULTI\r\n"
	for i, end := range []func(c *client){
		func(c *client) { c.exchange("DISCARD", "+OK") },
		func(c *client) { c.exchange("RESET", "+RESET") },
		func(c *client) { c.exchange("NOSUCH", "-ERR unknown command 'NOSUCH'") },
		func(c *client) { c.exchange("EXEC now", "-ERR wrong number of arguments for 'exec' command") },
		func(c *client) { c.exchange("QUIT", "+OK"); c.expectClosed() },
		func(c *client) {
			c.send(frame("EXEC") + frame("ECHO", "over"))
			for c.line() != "over\r\n" {
			}
		},
	} {
		try(tooMany)
		end(full[i])
		testkit.Eventually(t, "room for another", func() bool {
			c := w.dial(t)
			c.send(frame("MULTI") + large)
			c.expect("+OK\r\n")
			room := true
			for range 17 {
				room = c.line() == "+QUEUED\r\n" && room
			}
			if !room {
				_ = c.Close()
			}
			return room
		})
	}
	try(tooMany)
}

// With a store that is reached over a network, the SG.ALLOWs of a transaction are one call.
func TestTransactionIsOneBatch(t *testing.T) {
	w := open(t, resp.Options{Batch: true})
	c := w.dial(t)
	one := frame("SG.ALLOW", "default", "ann")
	c.send(frame("MULTI") + strings.Repeat(one, 5))
	c.expect("+OK\r\n" + strings.Repeat("+QUEUED\r\n", 5))
	before := w.store.applies.Load() + w.store.ones.Load()
	c.send(frame("EXEC"))
	for left := range 5 {
		want := numbers(1, 10, 9-int64(left), 0, hour, 1) + "\r\n"
		if left == 0 {
			want = "*5\r\n" + want
		}
		c.expect(want)
	}
	if calls := w.store.applies.Load() + w.store.ones.Load() - before; calls != 1 {
		t.Errorf("got %d calls to the store, want 1", calls)
	}
}
