package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/fields"
)

// grpcRig returns a proxy in front of a gRPC server, with TLS on both sides, and a client of it.
func grpcRig(t *testing.T, p config.Policy) (*rig, healthpb.HealthClient) {
	t.Helper()
	service := grpc.NewServer()
	healthpb.RegisterHealthServer(service, health.NewServer())
	to := httptest.NewUnstartedServer(service)
	to.EnableHTTP2 = true
	to.StartTLS()
	t.Cleanup(to.Close)
	transport := &http.Transport{TLSClientConfig: to.Client().Transport.(*http.Transport).TLSClientConfig, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	s := settings{policies: []config.Policy{p}}
	s.opts.Transport = transport
	secure, believe := certificate(t)
	s.serve.secure = secure
	r := newRig(t, to.URL, s)
	conn, err := grpc.NewClient(r.at, grpc.WithTransportCredentials(credentials.NewTLS(believe)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return r, healthpb.NewHealthClient(conn)
}

// TestRefusedCall: a gRPC client sees RESOURCE_EXHAUSTED, which it does not retry at once, and the exact time to retry.
func TestRefusedCall(t *testing.T) {
	r, client := grpcRig(t, policy("calls", "/grpc.health.v1.Health/Check", "1/1m sliding-log"))
	if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatalf("the first call: got %v, want none", err)
	}
	r.clock.Advance(12_500_000)
	var header, trailer metadata.MD
	_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted || s.Message() != "the quota is used up" {
		t.Fatalf("got %v, want RESOURCE_EXHAUSTED", err)
	}
	info, _ := s.Details()[0].(*errdetails.RetryInfo)
	if got := info.GetRetryDelay().AsDuration(); got != 47500*time.Millisecond {
		t.Errorf("RetryInfo: got %v, want 47.5 s", got)
	}
	sent := metadata.Join(header, trailer) // with a status in the header, there is only one of them
	for name, want := range map[string]string{"grpc-retry-pushback-ms": "47500", "retry-after": "48"} {
		if got := sent.Get(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %v, want %s", name, got, want)
		}
	}
	r.clock.Advance(47_500_000)
	if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("after the delay: got %v, want no error", err)
	}
}

// TestRefusedCall: the other refusals have their own codes, and streams are refused like calls.
func TestBlockedCall(t *testing.T) {
	blocked := policy("calls", "", "1/1m")
	prefixes, err := clientip.ParseProxies("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	blocked.Block.Addresses = prefixes
	never := policy("calls", "", "1/1m")
	never.Cost, _ = fields.ParseCost("2")
	for name, test := range map[string]struct {
		policy config.Policy
		want   codes.Code
	}{"block list": {blocked, codes.PermissionDenied}, "above the quota": {never, codes.ResourceExhausted}} {
		_, client := grpcRig(t, test.policy)
		var trailer metadata.MD
		if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer)); status.Code(err) != test.want {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
		if got := trailer.Get("grpc-retry-pushback-ms"); name == "above the quota" && (len(got) != 1 || got[0] != "-1") {
			t.Errorf("%s: got the delay %v, want -1", name, got)
		}
		stream, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != test.want {
			t.Errorf("%s, a stream: got %v, want %v", name, err, test.want)
		}
	}
}

// TestRefusedWebCall: gRPC-Web and other requests get the status of HTTP.
func TestRefusedWebCall(t *testing.T) {
	r := newRig(t, application(t, echo), settings{policies: []config.Policy{policy("p", "", "1/1h")}})
	r.send("POST", "/")
	for kind, want := range map[string]int{"application/grpc-web+proto": 429, "application/json": 429, "application/grpc+proto": 200, "application/grpc": 200} {
		if got := r.send("POST", "/", "Content-Type", kind); got.StatusCode != want {
			t.Errorf("%s: got %s, want %d", kind, got.Status, want)
		}
	}
}
