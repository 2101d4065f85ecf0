package resp_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
	"github.com/slidegate/slidegate/rule"
)

const thirtySeconds = 30_000_000

// Slots are acquired, renewed and released, in transactions too and in both protocols.
func TestSlotCommands(t *testing.T) {
	for _, protocol := range []string{"2", "3"} {
		w := open(t, resp.Options{})
		c := w.dial(t)
		null := "$-1"
		if protocol == "3" {
			null = "_"
			c.send(frame("HELLO", "3"))
			for !strings.HasPrefix(c.line(), "*0") { // the end of the reply: no modules
			}
		}
		acquire := func(remaining int64) string {
			t.Helper()
			c.send(frame("SG.ACQUIRE", "slots", "ann"))
			c.expect("*8" + strings.TrimPrefix(numbers(1, 2, remaining, 0, thirtySeconds, 1), "*6") + "\r\n")
			made := c.bulk()
			c.expect(":30000000\r\n")
			return made
		}
		first, second := acquire(1), acquire(0)
		c.exchange("SG.ACQUIRE slots ann", "*8"+strings.TrimPrefix(numbers(0, 2, 0, thirtySeconds, thirtySeconds, 0), "*6"), null, ":0")
		c.send(frame("SG.RELEASE", "slots", first))
		c.expect(numbers(0, 1, 0) + "\r\n")
		c.send(frame("MULTI") + frame("SG.RELEASE", "slots", first) + frame("SG.RENEW", "slots", first) + frame("SG.RENEW", "slots", second) + frame("EXEC"))
		c.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n*3\r\n:1\r\n")
		c.line() // stores may return either what was released, or that nothing is left to release
		c.expect(":0\r\n" + numbers(0, 2, 1, -1, thirtySeconds, 0) + "\r\n" + numbers(1, 2, 1, 0, thirtySeconds, 1) + "\r\n")
		third := acquire(0)
		w.clock.Advance(2 * thirtySeconds)
		c.send(frame("SG.RENEW", "slots", third))
		c.expect(numbers(0, 2, 2, -1, 0, 0) + "\r\n")
		c.send(frame("SG.CANCEL", "slots", third))
		c.expect(numbers(0, 0, 1) + "\r\n") // the slot had expired
	}
}

// Taking a slot without holding it is an error that says what to do, and so is acquiring under a policy without slots.
func TestSlotErrors(t *testing.T) {
	for _, batch := range []bool{false, true} {
		w := open(t, resp.Options{Batch: batch})
		c := w.dial(t)
		for command, want := range map[string]string{
			"SG.ALLOW slots ann":                    "SG.ACQUIRE",
			"SG.ALLOWUPTO slots ann 2":              "SG.ACQUIRE",
			"SG.CHARGE slots ann":                   "SG.ACQUIRE",
			"SG.ACQUIRE default ann":                "in-flight",
			"SG.ACQUIRE slots ann x":                "cost: must be",
			"SG.RENEW slots {}":                     "reservation",
			"SG.RELEASE slots nonsense":             "must be the JSON text",
			"SG.RELEASE slots":                      "wrong number of arguments",
			"SG.ACQUIRE slots ann 1 ID a 2 3 4 5 6": "wrong number of arguments",
			"SG.ACQUIRE slots ann 1 again":          "unknown option",
			"SG.ACQUIRE nobody ann":                 "unknown policy",
		} {
			c.send(frame(strings.Fields(command)...))
			if line := c.line(); !strings.HasPrefix(line, "-ERR ") || !strings.Contains(line, want) || strings.Contains(line, "ann") {
				t.Errorf("%s: got %q, want an ERR with %q and without the key", command, line, want)
			}
		}
		c.exchange("SG.PEEK slots ann", numbers(1, 2, 2, 0, 0, 0))
	}
}

// If the store cannot remember a settlement, nothing is settled, and the client gets a separate error code.
func TestUnsettledCommand(t *testing.T) {
	w := open(t, resp.Options{})
	c := w.dial(t)
	for range (&rule.Limit{Quota: 10, Window: 60e6}).Settlements() + 1 {
		c.send(frame("SG.RESERVE", "default", "ann", "1"))
		for range 7 {
			c.line()
		}
		made := c.bulk()
		c.expect(":0\r\n")
		c.send(frame("SG.CANCEL", "default", made))
		line := c.line()
		if strings.HasPrefix(line, "-UNSETTLED ") {
			return
		}
		if line != "*2\r\n" {
			t.Fatalf("got %q, want two numbers", line)
		}
		c.expect(":0\r\n:1\r\n")
	}
	t.Error("every settlement was remembered, want an UNSETTLED")
}
