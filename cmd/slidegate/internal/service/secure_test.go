package service_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// authority signs certificates.
type authority struct {
	t      *testing.T
	folder string
	own    *testkit.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t, t.TempDir(), testkit.NewCertificate(t, t.Name(), nil)}
	a.own.Write(t, a.path("ca.pem"), a.path("ca.key"))
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.folder, name) }

// server signs a certificate for 127.0.0.1.
func (a *authority) server() service.TLS {
	files := service.TLS{Cert: a.path("server.pem"), Key: a.path("server.key")}
	testkit.NewCertificate(a.t, "server", a.own, "127.0.0.1").Write(a.t, files.Cert, files.Key)
	return files
}

// client returns the configuration of a client that trusts the authority and, if it has a name, has a certificate from by.
func (a *authority) client(name string, by *authority) *tls.Config {
	c := &tls.Config{RootCAs: a.own.Pool()}
	if name != "" {
		c.Certificates = []tls.Certificate{testkit.NewCertificate(a.t, name, by.own).Pair}
	}
	return c
}

// sendToAll sends a request to each of the three public listeners and returns the errors. It sends the token, if there is one.
func (s *started) sendToAll(t *testing.T, secure *tls.Config, token string) map[string]error {
	t.Helper()
	return map[string]error{
		"http": s.callHTTP("http", secure, "/v1/allow", token), "grpc": s.callGRPC(t, secure, token), "resp": s.callRESP(secure, token),
	}
}

func (s *started) callHTTP(listener string, secure *tls.Config, path, token string) error {
	transport := &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	web := "http"
	if secure != nil {
		web = "https"
	}
	method, body := http.MethodPost, question
	if path != "/v1/allow" {
		method, body = http.MethodGet, ""
	}
	r, err := http.NewRequest(method, web+"://"+s.Address(listener)+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Slidegate-Token", token)
	got, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err == nil && got.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d: %s", got.StatusCode, text)
	}
	return err
}

// dialGRPC returns a connection, and a context with the token.
func (s *started) dialGRPC(t *testing.T, secure *tls.Config, token string) (*grpc.ClientConn, context.Context) {
	t.Helper()
	how := insecure.NewCredentials()
	if secure != nil {
		how = credentials.NewTLS(secure)
	}
	conn, err := grpc.NewClient(s.Address("grpc"), grpc.WithTransportCredentials(how))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return conn, ctx
}

func (s *started) callGRPC(t *testing.T, secure *tls.Config, token string) error {
	t.Helper()
	conn, ctx := s.dialGRPC(t, secure, token)
	_, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{
		Domain: "web", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "me"}}}},
	})
	return err
}

func (s *started) callRESP(secure *tls.Config, token string) error {
	conn, err := net.Dial("tcp", s.Address("resp"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if secure != nil {
		secure = secure.Clone()
		secure.ServerName = "127.0.0.1"
		conn = tls.Client(conn, secure)
	}
	text := "SG.PEEK default me\nQUIT"
	if token != "" {
		text = "AUTH " + token + "\n" + text
	}
	if _, err := io.WriteString(conn, testkit.Commands(text)); err != nil {
		return err
	}
	got, err := io.ReadAll(conn)
	if err == nil && !strings.Contains(string(got), "*6\r\n:1\r\n") {
		err = fmt.Errorf("got reply %q", got)
	}
	return err
}

func domainFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "domain.yaml")
	write(t, path, "domain: web\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1000}\n")
	return path
}

const roomy = "policies:\n  default:\n    limits: [1000/1h]\n"

// TestTLS: all listeners except the admin listener on loopback use TLS, and plain-text clients are not served.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	s := start(t, roomy, func(o *service.Options) { o.TLS, o.Envoy = a.server(), []string{domainFile(t)} })
	for listener, err := range s.sendToAll(t, a.client("", nil), "") {
		if err != nil {
			t.Errorf("listener %s: got %v, want a response", listener, err)
		}
	}
	if err := s.callHTTP("admin", nil, "/metrics", ""); err != nil {
		t.Errorf("admin: got %v", err)
	}
	for listener, err := range s.sendToAll(t, nil, "") {
		if err == nil {
			t.Errorf("%s served a plain-text client", listener)
		}
	}
	for listener, err := range s.sendToAll(t, newAuthority(t).client("", nil), "") {
		if err == nil {
			t.Errorf("%s was accepted by a client of another authority", listener)
		}
	}
	for listener, err := range s.sendToAll(t, a.client("", nil), "") {
		if err != nil {
			t.Errorf("%s, afterwards: got %v", listener, err)
		}
	}
}

// TestClientCertificates: with a client CA, only clients whose certificates it has signed are served.
func TestClientCertificates(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	s := start(t, roomy, func(o *service.Options) {
		o.TLS, o.Envoy = a.server(), []string{domainFile(t)}
		o.TLS.ClientCA = a.path("ca.pem")
	})
	for name, test := range map[string]struct {
		secure *tls.Config
		good   bool
	}{
		"by the authority": {a.client("ann", a), true}, "by another": {a.client("bob", other), false}, "none": {a.client("", nil), false},
	} {
		for listener, err := range s.sendToAll(t, test.secure, "") {
			if (err == nil) != test.good {
				t.Errorf("a certificate %s on %s: got %v", name, listener, err)
			}
		}
	}
}

// TestAdminFromOutside: the admin listener uses TLS and requires tokens if other machines can reach it.
func TestAdminFromOutside(t *testing.T) {
	const token = "0123456789abcdef"
	a := newAuthority(t)
	s := start(t, roomy, func(o *service.Options) { o.TLS, o.Tokens, o.Admin = a.server(), []string{token}, "0.0.0.0:0" })
	_, port, err := net.SplitHostPort(s.Address("admin"))
	if err != nil {
		t.Fatal(err)
	}
	at := "127.0.0.1:" + port
	for _, test := range []struct {
		secure *tls.Config
		token  string
		good   bool
	}{
		{a.client("", nil), token, true}, {a.client("", nil), "", false}, {nil, token, false},
	} {
		web := "http"
		if test.secure != nil {
			web = "https"
		}
		transport := &http.Transport{TLSClientConfig: test.secure}
		r, err := http.NewRequest(http.MethodGet, web+"://"+at+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+test.token)
		got, err := (&http.Client{Transport: transport}).Do(r)
		if err == nil {
			got.Body.Close()
		}
		if good := err == nil && got.StatusCode == http.StatusOK; good != test.good {
			t.Errorf("%s with token %q: got %v, %v", web, test.token, got, err)
		}
		transport.CloseIdleConnections()
	}
}

// TestEveryListenerRequiresTokens: gRPC and RESP require a token as HTTP does, except for health checks.
func TestEveryListenerRequiresTokens(t *testing.T) {
	const token = "0123456789abcdef"
	s := start(t, roomy, func(o *service.Options) { o.Tokens, o.Envoy = []string{token}, []string{domainFile(t)} })
	for listener, err := range s.sendToAll(t, nil, token) {
		if err != nil {
			t.Errorf("%s with a token: got %v", listener, err)
		}
	}
	for _, wrong := range []string{"", token[:15] + "x", token + "x"} {
		for listener, err := range s.sendToAll(t, nil, wrong) {
			if err == nil {
				t.Errorf("%s with token %q: got a response, want none", listener, wrong)
			}
		}
		conn, ctx := s.dialGRPC(t, nil, wrong)
		if err := s.callGRPC(t, nil, wrong); status.Code(err) != codes.Unauthenticated {
			t.Errorf("gRPC with token %q: got %v", wrong, err)
		}
		if got, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health with token %q: got %v, %v", wrong, got, err)
		}
		if watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{}); err != nil {
			t.Error(err)
		} else if _, err := watch.Recv(); err != nil {
			t.Errorf("watching health with token %q: got %v", wrong, err)
		}
		if stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx); err != nil {
			t.Error(err)
		} else {
			_ = stream.CloseSend() // otherwise a server that requires no token would wait for a request
			if _, err := stream.Recv(); status.Code(err) != codes.Unauthenticated {
				t.Errorf("reflection with token %q: got %v", wrong, err)
			}
		}
		for _, path := range []string{"/healthz", "/readyz", "/healthcheck"} {
			if err := s.callHTTP("http", nil, path, wrong); err != nil {
				t.Errorf("%s with token %q: got %v", path, wrong, err)
			}
		}
	}
	conn, ctx := s.dialGRPC(t, nil, "")
	ctx = metadata.AppendToOutgoingContext(ctx, "x-slidegate-token", token)
	if _, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "none"}); status.Code(err) == codes.Unauthenticated {
		t.Errorf("gRPC with x-slidegate-token: got %v", err)
	}
}
