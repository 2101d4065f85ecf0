// Package servicetest runs servers in the process of a test. Only tests import it: the tests of the server, and the
// end-to-end tests, which also run real stores.
package servicetest

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

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/config"
)

// Service is a server that runs until the test ends.
type Service struct {
	*service.Server
	Log  *Log
	End  context.CancelFunc // begins a graceful shutdown, as SIGTERM does
	done chan struct{}
	err  error // the error of Run, valid once done is closed
}

// Start runs a server with all listeners on free ports. The text is its policy file; change may be nil.
func Start(t testing.TB, text string, change func(*service.Options)) *Service {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slidegate.yaml")
	Write(t, path, text)
	file, err := config.Load(config.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	log := &Log{}
	opts := service.Options{
		File: file, Paths: []string{path}, HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", RESP: "127.0.0.1:0", Admin: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(log, nil)), Drain: 30 * time.Second,
	}
	if change != nil {
		change(&opts)
	}
	running, err := service.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &Service{Server: running, Log: log, End: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = running.Run(ctx)
	}()
	t.Cleanup(func() {
		s.Stop(t)
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// Stop shuts the server down gracefully, as SIGTERM does, and waits until it has ended.
func (s *Service) Stop(t testing.TB) {
	t.Helper()
	s.End()
	<-s.done
	if s.err != nil {
		t.Errorf("the server ended with %v, want no error", s.err)
	}
}

// Reply is a response whose body has been read.
type Reply struct {
	Status int
	Header http.Header
	Body   string
}

// Send sends a request to a listener; headers come in pairs.
func (s *Service) Send(t testing.TB, listener, method, path, body string, headers ...string) Reply {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+s.Address(listener)+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Reply{response.StatusCode, response.Header, string(text)}
}

// Write writes a file that only this user can read.
func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Log collects what was logged. It is safe for concurrent use, and its zero value is empty.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// Has reports whether a text was logged.
func (l *Log) Has(text string) bool { return strings.Contains(l.String(), text) }

// String returns everything that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
