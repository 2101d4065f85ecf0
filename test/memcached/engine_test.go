package memcached_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/kvstore/memcached"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/memcachedtest"
)

func bind(t testing.TB, limit slidegate.Limit) *store.Limit {
	t.Helper()
	return kit.Must(adapter.Bind("test", limit))(t)
}

func TestEngine(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, openOnServer(t, memcachedtest.Start(t)))
}

// A value that is too large is an error, and the previous value stays.
func TestTooLargeValueIsAnError(t *testing.T) {
	t.Parallel()
	engine := openOnServer(t, memcachedtest.Start(t))
	if _, err := engine.Swap(t.Context(), "name", []byte("small"), 0, time.Minute); err != nil {
		t.Fatal(err)
	}
	_, revision, err := engine.Get(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Swap(t.Context(), "name", make([]byte, 1<<20), revision, time.Minute); err == nil || !strings.Contains(err.Error(), "start it with larger items (-I)") {
		t.Errorf("a value that is too large: %v, want an error that says what to do", err)
	}
	if value, _, err := engine.Get(t.Context(), "name"); string(value) != "small" || err != nil {
		t.Errorf("after that: got %q, %v, want %q", value, err, "small")
	}
}

// memcached keeps an entry for the requested time and a few seconds more: its clock counts whole seconds and is late.
func TestEntriesAreKeptLongEnough(t *testing.T) {
	t.Parallel()
	s := memcachedtest.Start(t)
	engine := openOnServer(t, s)
	const most = 5 * time.Second // more than the requested time
	for _, keep := range []time.Duration{
		time.Second, 29 * 24 * time.Hour, 30*24*time.Hour - time.Second, 30 * 24 * time.Hour, 31 * 24 * time.Hour, 400 * 24 * time.Hour,
	} {
		name := "keep-" + keep.String()
		if _, err := engine.Swap(t.Context(), name, []byte("x"), 0, keep); err != nil {
			t.Fatal(err)
		}
		if left := s.TimeToLive(name); left < keep || left > keep+most {
			t.Errorf("got an entry kept for %v, want %v to %v", left, keep, keep+most)
		}
	}
}

// An entry is kept long enough, and forgotten in the end, at whichever point of a second of the server's clock it is written.
func TestEntriesAreNotForgottenEarly(t *testing.T) {
	t.Parallel()
	engine := openOnServer(t, memcachedtest.Start(t))
	const entries, keep = 40, time.Second
	there := func(name string) bool {
		value, _, err := engine.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return value != nil
	}
	var written []time.Time
	looked := 0 // number of entries read shortly before they may be forgotten
	kit.Eventually(t, "all entries to be written and looked at", func() bool {
		if n := len(written); n < entries && (n == 0 || time.Since(written[n-1]) > keep/entries) {
			written = append(written, time.Now())
			if _, err := engine.Swap(t.Context(), keyOf(n), []byte("x"), 0, keep); err != nil {
				t.Fatal(err)
			}
		}
		for ; looked < len(written) && time.Since(written[looked]) > keep*8/10; looked++ {
			if kept := there(keyOf(looked)); !kept && time.Since(written[looked]) < keep {
				t.Errorf("an entry was forgotten after %v, and was to be kept for %v", time.Since(written[looked]), keep)
			}
		}
		return looked == entries
	})
	kit.Eventually(t, "the entries to be forgotten", func() bool { return !there(keyOf(0)) && !there(keyOf(entries-1)) })
}

// A full server that does not evict rejects new keys with an error that says why. Existing keys stay limited.
func TestFullServerIsAnError(t *testing.T) {
	t.Parallel()
	s := memcachedtest.Start(t, "-M", "-m", "1", "-I", "512k", "-o", "no_slab_reassign")
	st := newStore(t, openOnServer(t, s), kvstore.Options{})
	limit := bind(t, slidegate.Limit{Name: "once", Quota: 1, Window: time.Hour, Algorithm: slidegate.SlidingLog})
	known, err := fill(t, st, limit, 100_000)
	if err == nil || !strings.Contains(err.Error(), "the server is full; start it with more memory (-m)") {
		t.Fatalf("after %d keys the error is %v, want one that says that the server is full", known, err)
	}
	if got := storetest.Marks(err); got != "down undone" {
		t.Errorf("the error wraps %q, want down undone", got)
	}
	for i := range known {
		if a, err := take(t.Context(), st, limit, keyOf(i), 1); err != nil || a.Allowed {
			t.Fatalf("key %d of %d: got %+v and the error %v, want a refusal", i, known, a, err)
		}
	}
	if n := s.Count("evictions"); n != 0 {
		t.Errorf("got %d evictions, want none", n)
	}
	t.Logf("a server of 1 MB with -M took %d keys", known)
}

func TestOptionErrors(t *testing.T) {
	t.Parallel()
	s := memcachedtest.Start(t)
	unwatched, unnumbered := memcachedtest.Start(t, "-W"), memcachedtest.Start(t, "-C")
	ended := memcachedtest.Start(t)
	ended.Kill()
	for _, test := range []struct {
		name   string
		client *memcache.Client
		opts   memcached.Options
		want   string
	}{
		{"no client", nil, memcached.Options{ClockServer: s.Addr()}, "memcached: client: must not be nil; create one with memcache.New"},
		{"no clock", s.Client(t), memcached.Options{}, "memcached: ClockServer: must not be empty; name the first of the client's servers"},
		{"two clocks", s.Client(t), memcached.Options{ClockServer: s.Addr(), MachineClock: true}, "memcached: MachineClock: must be false"},
		{"not watched", unwatched.Client(t), memcached.Options{ClockServer: unwatched.Addr()}, "start it without -W, or set MachineClock"},
		{"no server", ended.Client(t), memcached.Options{ClockServer: ended.Addr()}, "memcached: reading the server's clock: dial"},
	} {
		engine, err := memcached.New(t.Context(), test.client, test.opts)
		if err == nil {
			engine.Close()
			t.Errorf("%s: got no error, want one", test.name)
		} else if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %q, want %q in it", test.name, err, test.want)
		}
	}
	engine := openOnMachineClock(t, unwatched.Client(t))
	if traits := engine.Traits(); traits.ServerClock {
		t.Errorf("by the machine's clock: got traits %+v, want no ServerClock", traits)
	}
	limit := bind(t, slidegate.Limit{Name: "limit", Quota: 5, Window: time.Hour})
	st := newStore(t, engine, kvstore.Options{})
	if a, err := take(t.Context(), st, limit, "key", 1); err != nil || !a.Allowed {
		t.Errorf("by the machine's clock: got %+v and the error %v", a, err)
	}
	st = newStore(t, openOnServer(t, unnumbered), kvstore.Options{})
	_, _ = take(t.Context(), st, limit, "key", 1)
	if _, err := take(t.Context(), st, limit, "key", 1); err == nil || !strings.Contains(err.Error(), "start it without -C") {
		t.Errorf("over a server without numbers the error is %v, want one that says so", err)
	}
}

// After a restart the client still has dead connections. No decision fails because of them.
func TestRestartFailsNoLaterDecision(t *testing.T) {
	t.Parallel()
	s := memcachedtest.Start(t)
	st := newStore(t, openOnServer(t, s), kvstore.Options{})
	limit := bind(t, slidegate.Limit{Name: "limit", Quota: 1000, Window: time.Hour})
	for round := range 5 {
		var wait sync.WaitGroup
		for i := range 32 { // concurrently, so that there are many connections
			wait.Go(func() {
				if _, err := take(t.Context(), st, limit, keyOf(i), 1); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wait.Wait()
		s.Restart()
	}
	s.Kill()
	kit.Eventually(t, "the server to refuse connections", func() bool {
		_, err := take(t.Context(), st, limit, keyOf(0), 1)
		got := storetest.Marks(err)
		if err == nil || got != "busy" && got != "busy undone" && got != "down undone" {
			t.Fatalf("without a server: got %q of %v", got, err)
		}
		return got == "down undone"
	})
}

// A server that has no connection left is busy.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	s := memcachedtest.Start(t, "-c", "64", "-o", "maxconns_fast")
	engine := openOnMachineClock(t, s.Client(t))
	for range 100 { // more than there are
		conn := kit.Must(net.Dial("tcp", s.Addr()))(t)
		defer conn.Close()
	}
	_, err := take(t.Context(), newStore(t, engine, kvstore.Options{}), bind(t, slidegate.Limit{Quota: 1, Window: time.Hour}), "key", 1)
	if got := storetest.Marks(err); got != "busy undone" {
		t.Errorf("got %q of %v, want busy undone", got, err)
	}
}

// If the server does not answer, a decision fails after the store's timeout, even if the client's is longer.
func TestStoppedServerFailsWithinTimeout(t *testing.T) {
	t.Parallel()
	s := memcachedtest.Start(t)
	client := s.Client(t)
	client.Timeout = time.Minute
	st := newStore(t, open(t, client, s.Addr()), kvstore.Options{Timeout: 50 * time.Millisecond})
	limit := bind(t, slidegate.Limit{Name: "limit", Quota: 1000, Window: time.Hour})
	if _, err := take(t.Context(), st, limit, "key", 1); err != nil {
		t.Fatal(err)
	}
	s.Signal(syscall.SIGSTOP)
	defer s.Signal(syscall.SIGCONT)
	start := time.Now()
	var err error
	for range 100 { // its threads do not all stop at once, so it may still answer
		if _, err = take(t.Context(), st, limit, "key", 1); err != nil {
			break
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v, want that of a deadline", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("got the error after %v, want at most 20s", took)
	}
}
