package service_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

const question = `{"key":"me"}`

// beginRequest begins a request and does not finish it. The server has read its header when beginRequest returns.
func (s *started) beginRequest(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address("http"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	header := "POST /v1/allow HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n"
	if _, err := io.WriteString(conn, header); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q, %v, want 100 Continue", line, err)
	}
	return conn
}

// finish finishes the request and returns the status.
func finish(t *testing.T, conn net.Conn) int {
	t.Helper()
	if _, err := io.WriteString(conn, question); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadResponse(bufio.NewReader(skipBlank(conn)), nil)
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	return got.StatusCode
}

// skipBlank skips the unread end of the interim response.
func skipBlank(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	for {
		if next, err := b.Peek(1); err != nil || next[0] != '\r' && next[0] != '\n' {
			return b
		}
		_, _ = b.ReadByte()
	}
}

// TestDrain: at shutdown new connections are refused, health reports it, and requests in progress are answered and counted.
func TestDrain(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	s := start(t, plain, func(o *service.Options) { o.State = state })
	conn := s.beginRequest(t)
	s.End()
	testkit.Eventually(t, "new connections are refused", func() bool {
		other, err := net.Dial("tcp", s.Address("http"))
		if err == nil {
			other.Close()
		}
		return err != nil
	})
	if got := finish(t, conn); got != http.StatusOK {
		t.Errorf("the request in progress: got %d, want 200", got)
	}
	s.Stop(t)
	if s.Log.Has("aborted") {
		t.Error("a request was aborted")
	}

	again := start(t, plain, func(o *service.Options) { o.State = state })
	if got := again.allow(t, "", "me"); got != http.StatusOK {
		t.Errorf("the second of 2: got %d, want 200", got)
	}
	if got := again.allow(t, "", "me"); got != http.StatusTooManyRequests {
		t.Errorf("the third of 2: got %d, want 429: the last request is missing from the state", got)
	}
}

// TestForceStopEndsDrain: a second request to stop ends the drain, and the state is saved.
func TestForceStopEndsDrain(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	s := start(t, plain, func(o *service.Options) { o.State, o.Drain = state, time.Hour })
	for range 2 {
		s.allow(t, "", "me")
	}
	s.beginRequest(t)
	s.End()
	testkit.Eventually(t, "it drains", func() bool { return s.Log.Has("draining") })
	s.ForceStop()
	s.Stop(t)
	if !s.Log.Has("requests in progress were aborted") {
		t.Error("aborted requests were not logged")
	}
	again := start(t, plain, func(o *service.Options) { o.State = state })
	if got := again.allow(t, "", "me"); got != http.StatusTooManyRequests {
		t.Errorf("the third of 2: got %d, want 429", got)
	}
}

// TestDrainIsBounded: a client that does not finish its request delays the shutdown no longer than the drain.
func TestDrainIsBounded(t *testing.T) {
	s := start(t, plain, func(o *service.Options) { o.Drain = 50 * time.Millisecond })
	s.beginRequest(t)
	s.Stop(t)
	if !s.Log.Has("requests in progress were aborted") {
		t.Error("aborted requests were not logged")
	}
}

// TestHealthWatchDoesNotDelayDrain: a client that watches the health over gRPC is notified of the drain, and does not delay it.
func TestHealthWatchDoesNotDelayDrain(t *testing.T) {
	s := start(t, plain, nil)
	conn, err := grpc.NewClient(s.Address("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("got %v, %v, want SERVING", got, err)
	}
	s.Stop(t)
	if s.Log.Has("aborted") {
		t.Error("the drain waited for the watch")
	}
	for {
		got, err := watch.Recv()
		if err != nil {
			break
		}
		if got.Status != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("at the end: got %v", got)
		}
	}
}

// TestRunAfterStop: a service that is stopped before it begins to serve stops cleanly.
func TestRunAfterStop(t *testing.T) {
	s := start(t, plain, nil)
	s.Stop(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	made, err := service.New(t.Context(), service.Options{File: s.File(), HTTP: "127.0.0.1:0", RESP: "127.0.0.1:0", GRPC: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Run(ctx); err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
}
