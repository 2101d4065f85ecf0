package redisstore

import (
	"errors"
	"strings"
	"testing"
)

// reply is a server's error, through any client.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// Servers of other versions, and proxies, repeat what they received in other words than the server of the tests.
func TestTextsOfOtherServers(t *testing.T) {
	const (
		prefix  = "slidegate:default:login:sliding-window-60000000-1-clock:"
		name    = prefix + "{alice@example.com}"
		grouped = prefix + "{tenant-77}:alice%40example.com"
	)
	for _, c := range []struct{ text, want string }{
		{"WRONGTYPE Operation against a key holding the wrong kind of value", "WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"NOPERM User app has no permissions to access the '" + name + "' key", "NOPERM User app has no permissions to access the (the"},
		{"ERR unknown command `EVALSHA`, with args beginning with: `" + name, "ERR unknown command `EVALSHA`"},
		{"ERR unknown command `X`, with args beginning with: `alice@exam", "ERR unknown command `X`"},
		{"ERR proxy: no backend for " + grouped + " at shard 3", "ERR proxy: no backend for (the"},
		{"ERR proxy: cut short " + prefix + "{ali", "ERR proxy: cut short (the"},
		{"ERR proxy: no backend for alice@example.com", "ERR (the"},
		{"ERR proxy: tag tenant-77 is not routed", "ERR (the"},
		{"alice@example.com is not known here", "an error (the"},
		{"ERR two\r\nlines", "ERR two??lines"},
		{"ERR " + strings.Repeat("x", 100_000), "ERR xxx"},
	} {
		got := callError(&Call{Keys: []string{prefix + "{other}", name, grouped}, Err: reply(c.text)}).Error()
		if !strings.HasPrefix(got, "redisstore: "+c.want) || strings.Contains(got, "ali") || strings.Contains(got, "tenant") {
			t.Errorf("%.80q: got %.200q, want %q and no key", c.text, got, c.want)
		}
		if strings.ContainsAny(got, "\r\n") || len(got) > longestReply+100 {
			t.Errorf("%.80q: got %q", c.text, got)
		}
	}
}

var errNetwork = errors.New("dial tcp 127.0.0.1:6379: connect: connection refused")

func TestOwnErrorsStayAsTheyAre(t *testing.T) {
	err := callError(&Call{Keys: []string{"slidegate:::x:{127.0.0.1}"}, Err: errNetwork})
	if !errors.Is(err, errNetwork) || err.Error() != "redisstore: "+errNetwork.Error() {
		t.Errorf("got %v", err)
	}
}
