package service_test

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

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// During the delay, readiness reports false over HTTP and gRPC; requests are served, on new and old connections, and each HTTP
// response closes its connection; and ForceStop ends the delay.
func TestDrainDelay(t *testing.T) {
	s := start(t, roomy, func(o *service.Options) { o.DrainDelay, o.Envoy = time.Hour, []string{domainFile(t)} })
	conn, err := grpc.NewClient(s.Address("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	testkit.NoError(t, err)
	defer conn.Close()
	health := func() healthpb.HealthCheckResponse_ServingStatus {
		got, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		testkit.NoError(t, err)
		return got.Status
	}
	if got := health(); got != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("before the shutdown: got %v", got)
	}
	if got := s.send(t, "http", "POST", "/v1/allow", question); got.status != http.StatusOK || got.header.Get("Connection") != "" {
		t.Errorf("before the shutdown: got %+v, want 200 without Connection", got)
	}
	s.End()
	testkit.Eventually(t, "it is not ready", func() bool {
		got := s.send(t, "admin", "GET", "/readyz", "")
		return got.status == http.StatusServiceUnavailable && strings.Contains(got.body, "draining")
	})
	for range 3 {
		got := raw(t, s.Address("http"), "POST /v1/allow HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n"+question)
		if !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.Contains(got, "\r\nConnection: close\r\n") { // read to the end of the connection
			t.Errorf("during the delay: got %q, want 200 and Connection: close", got)
		}
	}
	if got := health(); got != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("during the delay: got %v", got)
	}
	s.ForceStop()
	s.Stop(t)
	if conn, err := net.Dial("tcp", s.Address("http")); err == nil {
		conn.Close()
		t.Error("the listener is open after the shutdown")
	}
}

// raw sends a request verbatim and returns everything that the server sends until it closes the connection.
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

// Inherited sockets replace addresses, and a client that connects between two services is served by the second.
func TestSockets(t *testing.T) {
	kept, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	defer kept.Close()
	file, err := kept.(*net.TCPListener).File()
	testkit.NoError(t, err)
	defer file.Close()
	run := func() *started {
		passed, err := net.FileListener(file)
		testkit.NoError(t, err)
		return start(t, roomy, func(o *service.Options) { o.HTTP, o.Sockets = "", map[string]net.Listener{"http": passed} })
	}
	first := run()
	if got, want := first.Address("http"), kept.Addr().String(); got != want {
		t.Errorf("got address %s, want %s", got, want)
	}
	if got := first.allow(t, "", "me"); got != http.StatusOK {
		t.Errorf("the first service: got %d, want 200", got)
	}
	first.Stop(t)
	answered := make(chan int)
	go func() {
		response, err := http.Get("http://" + kept.Addr().String() + "/healthz")
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		response.Body.Close()
		answered <- response.StatusCode
	}()
	run()
	if got := <-answered; got != http.StatusOK {
		t.Errorf("between the two: got %d, want 200", got)
	}
}

// An admin listener on a socket that anyone can reach needs tokens, wherever its address comes from.
func TestSocketOfAdmin(t *testing.T) {
	open, err := net.Listen("tcp", "0.0.0.0:0")
	testkit.NoError(t, err)
	defer open.Close()
	s := start(t, roomy, nil)
	_, err = service.New(t.Context(), service.Options{File: s.File(), Sockets: map[string]net.Listener{"admin": open}})
	if err == nil || !strings.Contains(err.Error(), "give tokens") {
		t.Errorf("got %v, want an error that requires tokens", err)
	}
}

// A client that is connected when the listeners close, and sends its request only then, is served.
func TestDrainAnswersTheConnected(t *testing.T) {
	s := start(t, roomy, nil)
	conn, err := net.Dial("tcp", s.Address("http"))
	testkit.NoError(t, err)
	defer conn.Close()
	s.End()
	testkit.Eventually(t, "new connections are refused", func() bool {
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
		t.Errorf("got %q, %v, want a last response", got, err)
	}
	s.Stop(t)
}
