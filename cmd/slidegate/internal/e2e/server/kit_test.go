package server_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/config"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1")) // sleeps for a second after a client was closed
}

// service is a server that runs in this process.
type service struct {
	*server.Server
	log  *logBook
	end  context.CancelFunc
	done chan struct{}
	err  error // of Run, once done
}

// start runs a server with all doors on free ports. The text is its file of policies.
func start(t *testing.T, text string, change func(*server.Options)) *service {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slidegate.yaml")
	write(t, path, text)
	file, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	log := &logBook{}
	opts := server.Options{
		File: file, Path: path, HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", RESP: "127.0.0.1:0", Admin: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(log, nil)), Drain: 30 * time.Second,
	}
	if change != nil {
		change(&opts)
	}
	made, err := server.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &service{Server: made, log: log, end: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = made.Run(ctx)
	}()
	t.Cleanup(func() {
		s.stop(t)
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// stop ends the server in order, as SIGTERM does.
func (s *service) stop(t *testing.T) {
	t.Helper()
	s.end()
	<-s.done
	if s.err != nil {
		t.Errorf("it ended with %v", s.err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	body   string
}

// ask sends a request to a door.
func (s *service) ask(t *testing.T, door, method, path, body string) reply {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+s.Address(door)+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{answer.StatusCode, string(text)}
}

// eventually waits until something is so, and fails the test if it never is.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: never within 30 seconds", what)
		}
	}
}

// logBook is what was logged. It is safe for concurrent use.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) has(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(b.text.String(), text)
}
