package redisstore_test

import (
	"context"
	"testing"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// Errors of a real server wrap what they mean, through both clients. When the fault is over, the requests that failed are found not to
// have been carried out.
func TestWhatErrorsMean(t *testing.T) {
	t.Parallel()
	set := func(name, value string) [][]string { return [][]string{{"CONFIG", "SET", name, value}} }
	reconnect := []string{"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}
	for _, c := range []struct {
		name       string
		fault, end [][]string // commands
		want       string
	}{
		{"a replica", [][]string{{"REPLICAOF", "127.0.0.1", "1"}}, [][]string{{"REPLICAOF", "NO", "ONE"}}, "down undone"},
		{"a replica without data", append(set("replica-serve-stale-data", "no"), []string{"REPLICAOF", "127.0.0.1", "1"}),
			[][]string{{"REPLICAOF", "NO", "ONE"}}, "down undone"},
		{"full", set("maxmemory", "1"), set("maxmemory", "0"), "down undone"},
		{"too few replicas", set("min-replicas-to-write", "1"), set("min-replicas-to-write", "0"), "down undone"},
		{"another password", append(set("requirepass", "other"), reconnect), set("requirepass", ""), "down undone refused"},
		{"no permission", [][]string{{"ACL", "SETUSER", "default", "-evalsha", "-eval"}}, [][]string{{"ACL", "SETUSER", "default", "+@all"}}, "down undone refused"},
		{"too many clients", append(set("maxclients", "1"), reconnect), set("maxclients", "1000"), "busy"}, // clients see only that the connection is closed
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, by := range []string{"go-redis", "rueidis"} {
				server := redistest.Server(t, "appendonly no")
				s, admin := clientsOf(t, server, "")[by], server.Client(t)
				charge := store.Charge{Limit: bind(t, "faults", hourly), Key: "key", Cost: 1}
				apply(t, s, rule.Take, charge)
				for _, command := range c.fault {
					do(t, admin, command...)
				}
				apply := func() error { _, err := tryApply(t.Context(), s, rule.Take, charge); return err }
				awaitMarks(t, apply, by, c.want)
				for _, command := range c.end {
					do(t, admin, command...)
				}
				checkNotCarriedOut(t, s, charge, by)
			}
		})
	}
}

// awaitMarks repeats a call until its error wraps what is wanted. Before that, only a broken connection is allowed.
func awaitMarks(t *testing.T, call func() error, by, want string) {
	t.Helper()
	kit.Eventually(t, "an error that wraps "+want, func() bool {
		err := call()
		got := storetest.Marks(err)
		if err == nil || got != want && got != "busy" {
			t.Fatalf("%s: got %q of %v, want %q", by, got, err, want)
		}
		return got == want
	})
}

// checkNotCarriedOut checks that one unit was charged before the fault, and none by requests that failed.
func checkNotCarriedOut(t *testing.T, s *redisstore.Store, charge store.Charge, by string) {
	t.Helper()
	kit.Eventually(t, "the store to work again", func() bool {
		a, err := tryApply(context.Background(), s, rule.Peek, charge)
		if err == nil && a.Remaining != 99 {
			t.Fatalf("%s: got %d remaining, want 99", by, a.Remaining)
		}
		return err == nil
	})
}

func TestDeadServerIsDown(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"go-redis", "rueidis"} {
		server := redistest.Server(t, "appendonly no")
		s := clientsOf(t, server, "")[by]
		charge := store.Charge{Limit: bind(t, "faults", hourly), Key: "key", Cost: 1}
		apply(t, s, rule.Take, charge)
		server.Kill()
		apply := func() error { _, err := tryApply(t.Context(), s, rule.Take, charge); return err }
		awaitMarks(t, apply, by, "down undone") // the connection breaks, then it is refused
		load := func() error { _, _, err := s.LoadDocument(t.Context(), "name", 0); return err }
		awaitMarks(t, load, by+", a document", "down undone") // a client has several connections
	}
	opts := rueidis.ClientOption{InitAddress: []string{"name.invalid:6379"}, ForceSingleClient: true, DisableCache: true}
	client, _ := rueidis.NewClient(opts) // the error is that of every call
	if client == nil {
		t.Fatal("got no client")
	}
	defer client.Close()
	charge := store.Charge{Limit: bind(t, "faults", hourly), Key: "key", Cost: 1}
	if _, err := tryApply(t.Context(), newStore(t, client, redisstore.Options{}), rule.Take, charge); storetest.Marks(err) != "down undone" {
		t.Errorf("a name that does not resolve: got %q of %v", storetest.Marks(err), err)
	}
}

// A key of another type, and a server that is slow, say nothing about the store.
func TestErrorsOfOneKey(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly no")
	client, other := server.Client(t), server.Client(t)
	s := newStore(t, client, redisstore.Options{})
	limit := bind(t, "faults", hourly)
	charge := store.Charge{Limit: limit, Key: "key", Cost: 1}
	do(t, other, "RPUSH", nameOf(limit, "key"), "other")
	if _, err := tryApply(t.Context(), s, rule.Take, charge); err == nil || storetest.Marks(err) != "" {
		t.Errorf("a key of another type: got %q of %v, want no marks", storetest.Marks(err), err)
	}
	do(t, other, "CLIENT", "PAUSE", "60000", "WRITE")
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := tryApply(ctx, s, rule.Take, charge)
		failed <- err
	}()
	cancel()
	if err := <-failed; err == nil || storetest.Marks(err) != "" {
		t.Errorf("a caller that leaves: got %q of %v, want no marks", storetest.Marks(err), err)
	}
}
