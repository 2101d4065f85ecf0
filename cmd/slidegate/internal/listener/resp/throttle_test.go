package resp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
	"github.com/slidegate/slidegate/rule"
)

// throttleStep is a step of a script: when, how much, and the five numbers.
type throttleStep struct {
	at       time.Duration
	quantity string
	want     [5]int64
}

// play sends commands for one key in the order of the script.
func play(t *testing.T, params string, steps []throttleStep) {
	t.Helper()
	w := open(t, resp.Options{})
	c := w.dial(t)
	for i, s := range steps {
		w.clock.Set(start + rule.Micros(s.at.Microseconds()))
		c.send(frame(strings.Fields("CL.THROTTLE user123 " + params + " " + s.quantity)...))
		want := numbers(s.want[:]...) + "\r\n"
		got := make([]byte, 0, 64)
		for strings.Count(string(got), "\n") < 6 {
			line, err := c.in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, line...)
		}
		if string(got) != want {
			t.Errorf("step %d: at %v, %s of it: got %q, want %q", i, s.at, s.quantity, got, want)
		}
	}
}

// The example of redis-cell's README: 30 per minute is one every two seconds; a bucket of 16, of which 15 are left.
func TestThrottleAsPublished(t *testing.T) {
	play(t, "15 30 60", []throttleStep{
		{quantity: "", want: [5]int64{0, 16, 15, -1, 2}},
		{quantity: "1", want: [5]int64{0, 16, 14, -1, 4}},
	})
}

// One unit per second and a bucket of 5: redis-cell's own test, in whole seconds.
func TestThrottleAsRedisCell(t *testing.T) {
	const ms = time.Millisecond
	play(t, "4 1 1", []throttleStep{
		{0, "6", [5]int64{1, 5, 5, -1, 0}}, // more than the bucket ever holds: no time to retry
		{0, "1", [5]int64{0, 5, 4, -1, 1}},
		{0, "1", [5]int64{0, 5, 3, -1, 2}},
		{0, "1", [5]int64{0, 5, 2, -1, 3}},
		{0, "1", [5]int64{0, 5, 1, -1, 4}},
		{0, "1", [5]int64{0, 5, 0, -1, 5}},
		{0, "1", [5]int64{1, 5, 0, 1, 5}},
		{3000 * ms, "1", [5]int64{0, 5, 2, -1, 3}},
		{3100 * ms, "1", [5]int64{0, 5, 1, -1, 4}}, // 3.9 s, rounded up
		{4000 * ms, "1", [5]int64{0, 5, 1, -1, 4}},
		{8000 * ms, "1", [5]int64{0, 5, 4, -1, 1}},
		{9500 * ms, "1", [5]int64{0, 5, 4, -1, 1}},
		{9500 * ms, "0", [5]int64{0, 5, 4, -1, 1}}, // only a peek
		{9500 * ms, "2", [5]int64{0, 5, 2, -1, 3}},
		{9500 * ms, "5", [5]int64{1, 5, 2, 3, 3}},
	})
}

// A bucket of one unit that takes two seconds. Seconds round up at a whole millisecond beyond them, otherwise down.
func TestThrottleRounds(t *testing.T) {
	const us = time.Microsecond
	play(t, "0 1 2", []throttleStep{
		{0, "1", [5]int64{0, 1, 0, -1, 2}},
		{0, "1", [5]int64{1, 1, 0, 2, 2}},
		{1 * us, "1", [5]int64{1, 1, 0, 2, 2}},         // 1.999999 s
		{999_000 * us, "1", [5]int64{1, 1, 0, 2, 2}},   // 1.001 s
		{999_001 * us, "1", [5]int64{1, 1, 0, 1, 1}},   // 1.000999 s
		{1_000_000 * us, "1", [5]int64{1, 1, 0, 1, 1}}, // 1 s
		{1_999_000 * us, "1", [5]int64{1, 1, 0, 1, 1}}, // 1 ms
		{1_999_001 * us, "1", [5]int64{1, 1, 0, 0, 0}}, // 999 us
		{2_000_000 * us, "1", [5]int64{0, 1, 0, -1, 2}},
	})
}

// A key keeps what it used when the burst or the count changes: the missing units are stored.
func TestThrottleChanges(t *testing.T) {
	w := open(t, resp.Options{})
	c := w.dial(t)
	c.exchange("CL.THROTTLE k 9 60 60 6", numbers(0, 10, 4, -1, 6))
	c.exchange("CL.THROTTLE k 6 60 60 0", numbers(0, 7, 1, -1, 6))   // the bucket is smaller,
	c.exchange("CL.THROTTLE k 4 60 60 0", numbers(1, 5, 0, 1, 6))    // and now overdrawn by one
	c.exchange("CL.THROTTLE k 9 120 60 1", numbers(0, 10, 3, -1, 4)) // seven units are 3.5 s at two a second
	c.exchange("CL.THROTTLE k 9 1 60 0", numbers(0, 10, 3, -1, 60))  // seven minutes at one a minute, but what was charged counts for its period
	c.exchange("CL.THROTTLE other 9 60 60 1", numbers(0, 10, 9, -1, 1))
}

func TestThrottleErrors(t *testing.T) {
	w := open(t, resp.Options{MaxPeriods: 2})
	c := w.dial(t)
	usage := "-Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
	zero := "-Cell error: Store error: Zero rates are not supported"
	c.exchange("CL.THROTTLE", usage)
	c.exchange("CL.THROTTLE k 1 2", usage)
	c.exchange("CL.THROTTLE k 1 2 3 4 5", usage)
	c.exchange("CL.THROTTLE k x 2 3", "-Cell error: Store error: Couldn't parse as integer: x")
	c.exchange("CL.THROTTLE k 1 2.5 3", "-Cell error: Store error: Couldn't parse as integer: 2.5")
	c.exchange("CL.THROTTLE k 1 2 9223372036854775808", "-Cell error: Store error: Couldn't parse as integer: 9223372036854775808")
	c.exchange("CL.THROTTLE k 1 2 3 -", "-Cell error: Store error: Couldn't parse as integer: -")
	c.exchange("CL.THROTTLE k 1 0 3", zero)
	c.exchange("CL.THROTTLE k 1 1 0", zero)
	c.exchange("CL.THROTTLE k 1 1 1 -1", "-Cell error: Store error: quantity: must not be negative")
	c.exchange("CL.THROTTLE k 1 -1 1", "-Cell error: Store error: count: must be positive")
	c.exchange("CL.THROTTLE k 1 1 -1", "-Cell error: Store error: period: must be positive, and at most five years")
	c.exchange("CL.THROTTLE k 1 1 9223372036854775807", "-Cell error: Store error: period: must be positive, and at most five years")
	c.exchange("CL.THROTTLE k -1 1 1", "-Cell error: Store error: max_burst: must be 0 to 9007199254740990")
	c.exchange("CL.THROTTLE k 9223372036854775807 1 1", "-Cell error: Store error: max_burst: must be 0 to 9007199254740990")
	c.exchange("CL.THROTTLE k +1 1 1", numbers(0, 2, 1, -1, 1)) // what parses in Rust parses here; and period 1 is the first
	c.exchange("CL.THROTTLE k 1 1 2", numbers(0, 2, 1, -1, 2))
	c.exchange("CL.THROTTLE k 1 1 3", "-Cell error: Store error: period: this connection has too many different periods in use; use one of them, or wait until their keys are full again")
	c.exchange("CL.THROTTLE k 1 1 2", numbers(0, 2, 0, -1, 4))
	for _, quantity := range []string{"9007199254740991", "9007199254740992", "4611686018427387903", "9223372036854775807"} {
		c.exchange("CL.THROTTLE k 1 1 2 "+quantity, numbers(1, 2, 0, -1, 4)) // never fits, and takes nothing
	}
	c.exchange("CL.THROTTLE full 9007199254740990 9007199254740991 1 9007199254740992", numbers(1, 9007199254740991, 9007199254740991, -1, 0))
	c.exchange("CL.THROTTLE k 1 2 157766400", "-Cell error: Store error: period: this connection has too many different periods in use; use one of them, or wait until their keys are full again")
	w.store.failing.Store(true)
	c.exchange("CL.THROTTLE k 1 1 2", "-Cell error: Store error: the store is broken")
}

// A client that uses many periods takes them from no other client, and from itself only while their keys count.
func TestThrottlePeriodsOfConnections(t *testing.T) {
	w := open(t, resp.Options{})
	busy, other := w.dial(t), w.dial(t)
	for i := range 64 {
		busy.exchange(fmt.Sprintf("CL.THROTTLE x 1 1 %d", 100_000+i), numbers(0, 2, 1, -1, int64(100_000+i)))
	}
	refused := "-Cell error: Store error: period: this connection has too many different periods in use; use one of them, or wait until their keys are full again"
	busy.exchange("CL.THROTTLE x 1 1 99999", refused)
	other.exchange("CL.THROTTLE user123 15 30 60", numbers(0, 16, 15, -1, 2))
	busy.exchange("CL.THROTTLE user123 15 30 60", numbers(0, 16, 14, -1, 4))
	busy.exchange("CL.THROTTLE x 1 1 100063", numbers(0, 2, 0, -1, 200_126))
	busy.exchange("CL.THROTTLE x 1 1 99999", refused)

	free := open(t, resp.Options{MaxPeriods: -1}).dial(t)
	for i := range 300 {
		free.exchange(fmt.Sprintf("CL.THROTTLE x 1 1 %d", 100_000+i), numbers(0, 2, 1, -1, int64(100_000+i)))
	}
}

// More rates than are cached still work.
func TestThrottleManyRates(t *testing.T) {
	w := open(t, resp.Options{})
	c := w.dial(t)
	const rates = 5000
	written := make(chan struct{})
	go func() {
		defer close(written)
		var all strings.Builder
		for i := range rates {
			all.WriteString(frame("cl.throttle", "k", "9999", fmt.Sprint(1000+i), "1000", "0"))
		}
		_, _ = c.Write([]byte(all.String()))
	}()
	for range rates {
		c.expect(numbers(0, 10_000, 10_000, -1, 0) + "\r\n")
	}
	<-written
}

func TestThrottleCanBeDisabled(t *testing.T) {
	w := newWorld(t, resp.Options{})
	bare, err := resp.New(w.gate, nil, resp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.server = bare
	w.listen(t)
	w.dial(t).exchange("CL.THROTTLE k 1 1 1", "-ERR unknown command 'CL.THROTTLE'")
}
