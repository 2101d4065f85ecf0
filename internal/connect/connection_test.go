package connect_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/connect"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// server is a driver whose attempts have scripted results.
type server struct {
	store    store.Store
	attempts []result // the last one is repeated
	made     int
	closed   []string
}

// result is the result of an attempt.
type result struct {
	after time.Duration // negative: never, unless the connection is closed
	err   error
}

var (
	errDead  = errors.New("connection refused")
	errWrong = store.Fault(errors.New("WRONGPASS"), store.ErrRefused, store.ErrDown, store.ErrUndone)
)

func (s *server) driver(warnings ...string) *connect.Driver {
	if s.store == nil {
		s.store = memstore.NewDefault()
	}
	return &connect.Driver{
		Offline: memstore.NewDefault(), Warnings: warnings, Connect: s.connect, Close: func() { s.closed = append(s.closed, "driver") },
	}
}

func (s *server) connect(ctx context.Context, _ *slog.Logger) (*connect.Link, error) {
	r := s.attempts[min(s.made, len(s.attempts)-1)]
	s.made++
	var done <-chan time.Time
	if r.after >= 0 {
		done = time.After(r.after)
	}
	select {
	case <-done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.err != nil {
		return nil, r.err
	}
	return &connect.Link{Store: s.store, Close: func() { s.closed = append(s.closed, "link") },
		Warnings: func(context.Context) ([]string, error) { return []string{"evicts"}, nil }}, nil
}

// connectTo connects to a server with scripted attempts, and returns how long that took and what was logged since.
func connectTo(ctx context.Context, s *server) (c *connect.Connection, took time.Duration, log *lockedLog, err error) {
	log = &lockedLog{}
	before := time.Now()
	c, err = connect.Connect(ctx, s.driver("plain"), slog.New(slog.NewTextHandler(log, nil)))
	return c, time.Since(before), log, err
}

// lockedLog is a log that may be read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// take requests one unit, twice in a batch.
func take(ctx context.Context, s store.Store) (batch []store.Request, err error) {
	limit := store.Bind("n", "", "l", rule.Limit{Algorithm: rule.FixedWindow, Quota: 5, Window: 1e6})
	batch = make([]store.Request, 2)
	for i := range batch {
		batch[i] = store.Request{Op: rule.Take, Charges: []store.Charge{{Limit: limit, Key: "k", Cost: 1}}, Answers: make([]rule.Answer, 1)}
	}
	return batch, s.Apply(ctx, batch)
}

func TestConnectAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{attempts: []result{{after: 20 * time.Millisecond}}}
		c, took, log, err := connectTo(t.Context(), s)
		if err != nil || took != 20*time.Millisecond || c.Err() != nil {
			t.Fatalf("got %v, %v after %v, want a connection when the attempt has ended", err, c.Err(), took)
		}
		if batch, err := take(t.Context(), c); err != nil || batch[1].Answers[0].Remaining != 3 {
			t.Errorf("got %v, %+v", err, batch)
		}
		synctest.Wait()
		for _, want := range []string{"level=WARN msg=plain store=memory", "the store is connected", "setting of the store: evicts"} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("got the log\n%swant %q once", log, want)
			}
		}
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if got := fmt.Sprint(s.closed); got != "[link driver]" {
			t.Errorf("closed %s, want the link and then the driver", got)
		}
		if _, err := take(t.Context(), c); !errors.Is(err, store.ErrDown) || !strings.Contains(err.Error(), "closed") {
			t.Errorf("after Close: got %v", err)
		}
	})
}

// TestConnectLater: a server that is down is not an error, requests name the cause, and attempts go on until one succeeds.
func TestConnectLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{attempts: []result{{err: errDead}, {err: errDead}, {err: errDead}, {}}}
		c, took, log, err := connectTo(t.Context(), s)
		if err != nil || took != 0 {
			t.Fatalf("got %v after %v, want no error at once", err, took)
		}
		checkDown(t, c, "connection refused")
		if _, _, err := c.LoadDocument(t.Context(), "a", 0); !errors.Is(err, store.ErrDown) {
			t.Errorf("LoadDocument: got %v, want ErrDown", err)
		}
		if errors.Is(c.Err(), store.ErrRefused) {
			t.Errorf("got %v, which wraps ErrRefused", c.Err())
		}
		testkit.Pass(time.Second) // 100, 200 and 400 ms, each and a quarter
		if err := c.Err(); err != nil || s.made != 4 {
			t.Errorf("a second later: got %v after %d attempts, want a connection by the fourth", err, s.made)
		}
		if _, err := take(t.Context(), c); err != nil {
			t.Errorf("got %v, want the store to decide", err)
		}
		if got := log.String(); strings.Count(got, "cannot be reached") != 1 || !strings.Contains(got, "attempt=4") {
			t.Errorf("unexpected log:\n%s", got)
		}
		_ = c.Close()
	})
}

// checkDown checks the errors of a store that is not connected.
func checkDown(t *testing.T, c *connect.Connection, cause string) {
	t.Helper()
	batch, err := take(t.Context(), c)
	for _, err := range []error{err, batch[0].Err, batch[1].Err, c.Err()} {
		if !errors.Is(err, store.ErrDown) || !errors.Is(err, store.ErrUndone) || !strings.Contains(err.Error(), cause) {
			t.Errorf("got %v, want ErrDown and ErrUndone because of %q", err, cause)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := take(ended, c); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrDown) {
		t.Errorf("after the end of the context: got %v, want its error", err)
	}
}

func TestConnectRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{attempts: []result{{err: errWrong}}}
		c, _, log, err := connectTo(t.Context(), s)
		if c != nil || !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("got %v, %v, want the refusal", c, err)
		}
		testkit.Pass(time.Minute)
		if s.made != 1 || fmt.Sprint(s.closed) != "[driver]" || strings.Contains(log.String(), "trying again") {
			t.Errorf("got %d attempts, closed %v, want one attempt and the driver closed; log:\n%s", s.made, s.closed, log)
		}
	})
}

// TestConnectRefusedLater: after the first attempt, a refusal ends: someone changes the password. Until then, the error says so.
func TestConnectRefusedLater(t *testing.T) {
	for name, first := range map[string]result{"down first": {err: errDead}, "slow": {after: time.Second, err: errWrong}} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{attempts: []result{first, {err: errWrong}, {err: errWrong}, {err: errWrong}, {err: errWrong}, {}}}
			c, _, log, err := connectTo(t.Context(), s)
			if err != nil {
				t.Fatalf("%s: got %v, want no error", name, err)
			}
			testkit.Pass(1500 * time.Millisecond)
			checkDown(t, c, "WRONGPASS")
			if !errors.Is(c.Err(), store.ErrRefused) || strings.Count(log.String(), "WRONGPASS") != 1 {
				t.Errorf("%s: got %v, want ErrRefused, and the refusal logged once:\n%s", name, c.Err(), log)
			}
			testkit.Pass(10 * time.Second)
			if err := c.Err(); err != nil {
				t.Errorf("%s: got %v, want a connection in the end", name, err)
			}
			_ = c.Close()
		})
	}
}

// TestConnectReadOnlyRole: a role that may connect and not write is refused, a store that is read-only for now is not.
func TestConnectReadOnlyRole(t *testing.T) {
	readOnly := store.Fault(errors.New("READONLY"), store.ErrDown, store.ErrUndone)
	for _, test := range []struct{ err, want error }{{errWrong, store.ErrRefused}, {readOnly, nil}} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{attempts: []result{{}}, store: failing{memstore.NewDefault(), test.err}}
			c, _, _, err := connectTo(t.Context(), s)
			if !errors.Is(err, test.want) {
				t.Errorf("%v: got %v, want %v", test.err, err, test.want)
			}
			if c != nil {
				if err := c.Err(); err != nil {
					t.Errorf("%v: got %v, want a connection", test.err, err)
				}
				_ = c.Close()
			}
			if got := fmt.Sprint(s.closed); got != "[link driver]" {
				t.Errorf("%v: closed %s, want both", test.err, got)
			}
		})
	}
}

// failing is a store whose requests fail.
type failing struct {
	store.Store
	err error
}

func (f failing) Apply(context.Context, []store.Request) error { return f.err }

// TestConnectSilent: a server that never answers delays Connect by half a second and Close not at all, and the end of the context ends
// Connect.
func TestConnectSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{attempts: []result{{after: -1}}}
		c, took, _, err := connectTo(t.Context(), s)
		if err != nil || took != 500*time.Millisecond {
			t.Fatalf("got %v after %v, want no error after half a second", err, took)
		}
		checkDown(t, c, "not connected yet")
		before := time.Now()
		if err := c.Close(); err != nil || time.Since(before) != 0 || s.made != 1 {
			t.Errorf("Close took %v: %v; %d attempts, want one, at once", time.Since(before), err, s.made)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if c, took, _, err := connectTo(ctx, s); c != nil || !errors.Is(err, context.DeadlineExceeded) || took != 100*time.Millisecond {
			t.Errorf("got %v, %v after %v, want the end of the context", c, err, took)
		}
	})
}

// TestConnectionOutlivesContext: the context is that of Connect alone.
func TestConnectionOutlivesContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, _, _, err := connectTo(ctx, &server{attempts: []result{{err: errDead}, {}}})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		testkit.Pass(time.Second)
		if err := c.Err(); err != nil {
			t.Errorf("got %v, want a connection", err)
		}
		_ = c.Close()
	})
}

func TestConnectionDelegates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _, err := connectTo(t.Context(), &server{attempts: []result{{err: errDead}, {}}, store: nodes{memstore.NewDefault()}})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Node(nil, "", "abc"); got != 0 {
			t.Errorf("before there is a connection: got the node %d, want 0", got)
		}
		testkit.Pass(time.Second)
		if got := c.Node(nil, "", "abc"); got != 3 {
			t.Errorf("got the node %d, want 3", got)
		}
		if _, err := c.SwapDocument(t.Context(), "a", []byte("text"), 0); err != nil {
			t.Error(err)
		}
		if text, _, err := c.LoadDocument(t.Context(), "a", 0); err != nil || string(text) != "text" {
			t.Errorf("got %q, %v, want the document", text, err)
		}
		_ = c.Close()
	})
}

// nodes is a store whose nodes are the lengths of keys.
type nodes struct{ *memstore.Store }

func (nodes) Node(_ *store.Limit, _, key string) int { return len(key) }
