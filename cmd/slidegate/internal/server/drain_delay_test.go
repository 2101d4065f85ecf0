package server_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// During the delay readiness says no, over HTTP and gRPC; questions are answered, on new connections and old ones, each as the last of
// its connection over HTTP; and Hurry ends it.
func TestDrainDelay(t *testing.T) {
	s := start(t, roomy, func(o *server.Options) { o.DrainDelay, o.Envoy = time.Hour, []string{domainFile(t)} })
	conn, err := grpc.NewClient(s.Address("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	testkit.NoError(t, err)
	defer conn.Close()
	health := func() healthpb.HealthCheckResponse_ServingStatus {
		got, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		testkit.NoError(t, err)
		return got.Status
	}
	if got := health(); got != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("before the end: %v", got)
	}
	if got := s.ask(t, "http", "POST", "/v1/allow", question); got.status != http.StatusOK || got.header.Get("Connection") != "" {
		t.Errorf("before the end: %+v", got)
	}
	s.End()
	testkit.Eventually(t, "it says that it is not ready", func() bool {
		got := s.ask(t, "admin", "GET", "/readyz", "")
		return got.status == http.StatusServiceUnavailable && strings.Contains(got.body, "draining")
	})
	for range 3 {
		got := raw(t, s.Address("http"), "POST /v1/allow HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n"+question)
		if !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.Contains(got, "\r\nConnection: close\r\n") { // read to the end of the connection
			t.Errorf("during the delay: %q", got)
		}
	}
	if got := health(); got != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("during the delay: %v", got)
	}
	s.Hurry()
	s.Stop(t)
	if conn, err := net.Dial("tcp", s.Address("http")); err == nil {
		conn.Close()
		t.Error("the door is open after the end")
	}
}

// raw sends a request as it is and returns all that comes until the server closes the connection.
func raw(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	testkit.NoError(t, err)
	defer conn.Close()
	testkit.NoError(t, conn.SetDeadline(time.Now().Add(testkit.Patience)))
	_, err = io.WriteString(conn, request)
	testkit.NoError(t, err)
	got, err := io.ReadAll(conn)
	testkit.NoError(t, err)
	return string(got)
}

// Sockets that another process keeps take the place of addresses, and who connects between two services is answered by the second.
func TestSockets(t *testing.T) {
	kept, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	defer kept.Close()
	file, err := kept.(*net.TCPListener).File()
	testkit.NoError(t, err)
	defer file.Close()
	run := func() *service {
		passed, err := net.FileListener(file)
		testkit.NoError(t, err)
		return start(t, roomy, func(o *server.Options) { o.HTTP, o.Sockets = "", map[string]net.Listener{"http": passed} })
	}
	first := run()
	if got, want := first.Address("http"), kept.Addr().String(); got != want {
		t.Errorf("it listens at %s, want %s", got, want)
	}
	if got := first.allow(t, "", "me"); got != http.StatusOK {
		t.Errorf("the first: %d", got)
	}
	first.Stop(t)
	answered := make(chan int)
	go func() {
		answer, err := http.Get("http://" + kept.Addr().String() + "/healthz")
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		answer.Body.Close()
		answered <- answer.StatusCode
	}()
	run()
	if got := <-answered; got != http.StatusOK {
		t.Errorf("between the two: %d", got)
	}
}

// An admin door on a socket that everybody can reach needs tokens, wherever its address comes from.
func TestSocketOfAdmin(t *testing.T) {
	open, err := net.Listen("tcp", "0.0.0.0:0")
	testkit.NoError(t, err)
	defer open.Close()
	s := start(t, roomy, nil)
	_, err = server.New(t.Context(), server.Options{File: s.File(), Sockets: map[string]net.Listener{"admin": open}})
	if err == nil || !strings.Contains(err.Error(), "give tokens") {
		t.Errorf("got %v, want an error that asks for tokens", err)
	}
}

// A client that has connected when the doors close, and asks only then, is answered.
func TestDrainAnswersTheConnected(t *testing.T) {
	s := start(t, roomy, nil)
	conn, err := net.Dial("tcp", s.Address("http"))
	testkit.NoError(t, err)
	defer conn.Close()
	s.End()
	testkit.Eventually(t, "nobody new is let in", func() bool {
		other, err := net.Dial("tcp", s.Address("http"))
		if err == nil {
			other.Close()
		}
		return err != nil
	})
	testkit.NoError(t, conn.SetDeadline(time.Now().Add(testkit.Patience)))
	_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	testkit.NoError(t, err)
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 200 OK\r\n") || !strings.Contains(string(got), "\r\nConnection: close\r\n") {
		t.Errorf("got %q, %v, want an answer that is the last one", got, err)
	}
	s.Stop(t)
}
