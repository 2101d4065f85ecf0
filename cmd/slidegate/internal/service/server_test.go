package service_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
)

const plain = "policies:\n  default:\n    limits: [2/1h]\n"

// TestListenersShareCounts: a unit taken through one listener is gone for all others.
func TestListenersShareCounts(t *testing.T) {
	s := start(t, plain, nil)
	if got := s.allow(t, "default", "me"); got != http.StatusOK {
		t.Fatalf("the first: got %d, want 200", got)
	}
	if got := s.resp(t, "SG.ALLOW default me"); !strings.HasPrefix(got, "*6\r\n:1\r\n:2\r\n:0\r\n") {
		t.Errorf("the second, over RESP: got %q", got)
	}
	last := s.send(t, "http", "POST", "/v1/allow", `{"policy":"default","key":"me"}`)
	if last.status != http.StatusTooManyRequests || last.header.Get("Retry-After") == "" {
		t.Errorf("the third: got %+v, want 429 and Retry-After", last)
	}
	if got := s.send(t, "admin", "POST", "/v1/reset", `{"policy":"default","key":"me"}`); got.status/100 != 2 {
		t.Errorf("reset: got %+v", got)
	}
	if got := s.allow(t, "default", "me"); got != http.StatusOK {
		t.Errorf("after the reset: got %d, want 200", got)
	}
	for _, path := range []string{"/v1/reset", "/v1/explain", "/v1/state", "/metrics", "/v1/seen"} {
		if got := s.send(t, "http", "GET", path, ""); got.status != http.StatusNotFound && got.status != http.StatusMethodNotAllowed {
			t.Errorf("%s is on the public listener: got %+v", path, got)
		}
	}
}

// resp sends a command and returns the reply.
func (s *started) resp(t *testing.T, command string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address("resp"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, testkit.Commands(command+"\nQUIT"))
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestFirstMinute: with nothing but a limit, the service refuses and returns a time after which it admits.
func TestFirstMinute(t *testing.T) {
	s := start(t, "policies: {default: {limits: [1/200ms sliding-log]}}\n", nil)
	var refused reply // the second request, unless two took longer than the window
	testkit.Eventually(t, "a request is refused", func() bool {
		refused = s.send(t, "http", "POST", "/v1/allow", `{"key":"me"}`)
		return refused.status == http.StatusTooManyRequests
	})
	var decoded struct {
		RetryAfter int64 `json:"retry_after_us"`
	}
	if err := json.Unmarshal([]byte(refused.body), &decoded); err != nil || decoded.RetryAfter < 1 || decoded.RetryAfter > 200_000 || refused.header.Get("Retry-After") != "1" {
		t.Fatalf("got %+v, %v, want retry_after_us of 1 to 200000 and Retry-After 1", refused, err)
	}
	<-time.After(time.Duration(decoded.RetryAfter) * time.Microsecond)
	if got := s.allow(t, "", "me"); got != http.StatusOK {
		t.Errorf("after Retry-After: got %d, want 200", got)
	}
}

func TestHealthAndMetrics(t *testing.T) {
	s := start(t, plain, nil)
	for range 3 {
		s.allow(t, "default", "a secret key")
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		for _, listener := range []string{"http", "admin"} {
			if got := s.send(t, listener, "GET", path, ""); got.status != http.StatusOK {
				t.Errorf("%s on %s: got %+v", path, listener, got)
			}
		}
	}
	metrics := s.send(t, "admin", "GET", "/metrics", "").body
	for _, want := range []string{
		`outcome="admitted",policy="default"} 2`, `outcome="refused",policy="default"} 1`,
		`slidegate_connections{listener="http"}`, "go_goroutines",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("got no %s in the metrics:\n%s", want, metrics)
		}
	}
	if strings.Contains(metrics, "secret") || s.Log.Has("secret") {
		t.Error("the metrics or the log contain a key")
	}
	if seen := s.send(t, "admin", "GET", "/v1/seen", "").body; !strings.Contains(seen, `"masked":"a …y","admitted":2,"refused":1`) {
		t.Errorf("/v1/seen: got %s", seen)
	}
	for _, n := range []string{"0", "x", "-1", "100000"} {
		if got := s.send(t, "admin", "GET", "/v1/seen?n="+n, ""); got.status != http.StatusBadRequest {
			t.Errorf("n=%s: got %+v, want 400", n, got)
		}
	}
}

func TestTokens(t *testing.T) {
	const token = "0123456789abcdef"
	s := start(t, plain, func(o *service.Options) { o.Tokens = []string{"another token of some length", token} })
	for _, test := range []struct {
		headers []string
		want    int
	}{
		{nil, http.StatusUnauthorized},
		{[]string{"Authorization", "Bearer " + token[:15]}, http.StatusUnauthorized},
		{[]string{"Authorization", "Basic " + token}, http.StatusUnauthorized},
		{[]string{"Authorization", "bearer " + token}, http.StatusOK},
		{[]string{"X-Slidegate-Token", token}, http.StatusOK},
	} {
		if got := s.allow(t, "default", "me", test.headers...); got != test.want {
			t.Errorf("%q: got %d, want %d", test.headers, got, test.want)
		}
	}
	for _, path := range []string{"/metrics", "/v1/seen", "/v1/explain?key=me", "/v1/state?key=me"} {
		if got := s.send(t, "admin", "GET", path, ""); got.status != http.StatusUnauthorized {
			t.Errorf("%s on admin: got %+v, want 401", path, got)
		}
	}
	if got := s.send(t, "http", "GET", "/healthz", ""); got.status != http.StatusOK {
		t.Errorf("healthz: got %+v, want 200", got)
	}
	if got := s.resp(t, "SG.ALLOW default me"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("RESP: got %q, want NOAUTH", got)
	}
}

func TestWrongOptions(t *testing.T) {
	file, err := config.Parse("f", []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	good := service.Options{File: file, HTTP: "127.0.0.1:0"}
	for _, test := range []struct {
		change func(*service.Options)
		want   string
	}{
		{func(o *service.Options) { o.File = nil }, "File: "},
		{func(o *service.Options) { o.HTTP = "" }, "no listener is configured"},
		{func(o *service.Options) { o.HTTP = "127.0.0.1:99999" }, "HTTP: "},
		{func(o *service.Options) { o.Admin = "0.0.0.0:0" }, "tokens"},
		{func(o *service.Options) { o.Admin = ":0" }, "tokens"},
		{func(o *service.Options) { o.Tokens = []string{"short"} }, "at least 16"},
		{func(o *service.Options) { o.TLS.Cert = missing }, "TLS.Key: "},
		{func(o *service.Options) { o.TLS = service.TLS{Cert: missing, Key: missing} }, missing},
		{func(o *service.Options) { o.TLS.ClientCA = missing }, "need TLS"},
		{func(o *service.Options) { o.State = "/dev/null/state" }, "State: "},
		{func(o *service.Options) { o.Envoy = []string{missing} }, missing},
		{func(o *service.Options) { o.DrainDelay = -1 }, "DrainDelay: must not be negative"},
	} {
		opts := good
		test.change(&opts)
		if _, err := service.New(t.Context(), opts); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}
