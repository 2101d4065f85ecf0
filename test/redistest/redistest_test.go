package redistest

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

func set(client rueidis.Client, key, value string) error {
	return client.Do(context.Background(), client.B().Set().Key(key).Value(value).Build()).Error()
}

func get(client rueidis.Client, key string) (string, error) {
	return client.Do(context.Background(), client.B().Get().Key(key).Build()).ToString()
}

func TestServersAreSeparate(t *testing.T) {
	t.Parallel()
	a, b := Server(t, "appendonly no"), Server(t, "appendonly no")
	if a.Addr() == b.Addr() {
		t.Fatalf("both listen at %s", a.Addr())
	}
	if err := set(a.Client(t), "key", "a"); err != nil {
		t.Fatal(err)
	}
	if value, err := get(b.Client(t), "key"); !rueidis.IsRedisNil(err) {
		t.Errorf("the other server has %q, %v", value, err)
	}
}

func TestRestartKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	n := Server(t, "appendonly yes", "appendfsync always")
	if err := set(n.Client(t), "key", "kept"); err != nil {
		t.Fatal(err)
	}
	addr := n.Addr()
	n.Kill()
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("a server answers after Kill")
	}
	n.Restart()
	if value, err := get(n.Client(t), "key"); value != "kept" || n.Addr() != addr {
		t.Errorf("after Restart got %q, %v at %s", value, err, n.Addr())
	}
}

func TestTakenPort(t *testing.T) {
	t.Parallel()
	other := Server(t, "appendonly no")
	n := Server(t, "appendonly no")
	n.end()
	n.port = other.port
	n.configure()
	if err := n.start(); err == nil {
		t.Error("another server was taken for its own")
	}
}

func TestServerEndsWithTheTest(t *testing.T) {
	t.Parallel()
	var addr string
	t.Run("inner", func(t *testing.T) { addr = Server(t, "appendonly no").Addr() })
	if addr == "" {
		t.Skip("SKIPPED: there was no server")
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("the server outlived its test")
	}
}

func TestURLIsUsed(t *testing.T) {
	n := Server(t, "appendonly no")
	t.Setenv("REDIS_URL", "redis://"+n.Addr())
	t.Run("kill", func(t *testing.T) {
		used := Server(t)
		if used.Addr() != n.Addr() {
			t.Errorf("got server %s, want the one at REDIS_URL", used.Addr())
		}
		if err := set(used.Client(t), "key", "x"); err != nil {
			t.Error(err)
		}
		used.Kill()
		t.Error("a server that is not ours was killed")
	})
	if err := set(n.Client(t), "key", "y"); err != nil {
		t.Errorf("the server at REDIS_URL is gone: %v", err)
	}
}

// outcome is a test that records how it ended.
type outcome struct {
	testing.TB
	got string
}

func (o *outcome) Helper()          {}
func (o *outcome) Skip(args ...any) { o.got = "skip: " + args[0].(string); panic(o) }
func (o *outcome) Fatal(args ...any) {
	o.got = "fatal: " + args[0].(string)
	panic(o)
}

func TestWithoutProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("TEST_REDIS_SERVER", "") // make long T=valkey sets it
	outcomeOf := func() (got string) {
		o := &outcome{TB: t}
		defer func() { got = o.got; _ = recover() }()
		program(o)
		return ""
	}
	t.Setenv("TEST_REQUIRE", "chromium,curl")
	if got := outcomeOf(); !strings.HasPrefix(got, "skip: SKIPPED: ") || !strings.Contains(got, "make test installs it") {
		t.Errorf("without redis-server: got %q", got)
	}
	t.Setenv("TEST_REQUIRE", "curl,redis-server")
	if got := outcomeOf(); !strings.HasPrefix(got, "fatal: ") {
		t.Errorf("without a required redis-server: got %q", got)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := Cluster(t)
	client := nodes.Client(t)
	if client.Mode() != rueidis.ClientModeCluster {
		t.Fatalf("got a client of a %v", client.Mode())
	}
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} { // slots 15495, 3300, 7365, 11298, 15363, 3168: all masters
		if err := set(client, key, key); err != nil {
			t.Error(err)
		}
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	w := Sentinel(t)
	client := w.Client(t)
	if err := set(client, "key", "x"); err != nil {
		t.Fatal(err)
	}
	w.Replica.must("the write to arrive", func() error {
		_, err := w.Replica.command("GET", "key")
		return err
	})
	w.Master.Kill()
	w.AwaitFailover()
	w.Replica.must("the client to follow", func() error {
		_, err := get(client, "key")
		return err
	})
}
