package resp_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument/instrumenttest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

func TestMetrics(t *testing.T) {
	reader, provider := instrumenttest.New()
	w := open(t, resp.Options{Tokens: []string{"token"}, MeterProvider: provider})
	c := w.dial(t)
	c.exchange("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.")
	c.exchange("AUTH token", "+OK")
	c.send(strings.Repeat(frame("SG.ALLOW", "default", "secret"), 2) + frame("PING") + frame("SG.ALLOW", "default", "secret") + frame("NOSUCH"))
	for !strings.HasPrefix(c.line(), "-ERR unknown") {
	}
	broken := w.dial(t)
	broken.send("*x\r\n")
	broken.expect("-ERR Protocol error: invalid multibulk length\r\n")
	broken.expectClosed()
	want := map[string]int64{"resp.commands{command=auth}": 2, "resp.commands{command=sg.allow}": 3, "resp.commands{command=ping}": 1, "resp.auth_failures{}": 1}
	for reason, n := range map[string]int64{"protocol": 1, "client": 0, "idle": 0, "drained": 0, "slow_read": 0, "slow_write": 0, "unauthenticated": 0} {
		want["resp.disconnects{reason="+reason+"}"] = n
	}
	var got map[string]int64
	testkit.Eventually(t, "the disconnect to be counted", func() bool {
		got = reader.Read(t)
		return got["resp.disconnects{reason=protocol}"] == 1
	})
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: got %d, want %d", name, got[name], n)
		}
	}
	for name, n := range got { // unused commands are reported too
		if _, known := want[name]; !known && (n != 0 || !strings.HasPrefix(name, "resp.commands{")) {
			t.Errorf("got %s %d, want none", name, n)
		}
	}
	if _, there := got["resp.commands{command=sg.peek}"]; !there {
		t.Error("an unused command has no series")
	}
	if ok, failed := w.server.Replies(); ok != 5 || failed != 3 { // an invalid token, an unknown command, and input that is not a command
		t.Errorf("got %d replies and %d errors, want 5 and 3", ok, failed)
	}
}
