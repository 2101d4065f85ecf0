package server_test

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

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
)

const plain = "policies:\n  default:\n    limits: [2/1h]\n"

// TestDoors: a unit that is taken through one door is gone for all others.
func TestDoors(t *testing.T) {
	s := start(t, plain, nil)
	if got := s.allow(t, "default", "me"); got != http.StatusOK {
		t.Fatalf("the first: %d", got)
	}
	if got := s.resp(t, "SG.ALLOW default me"); !strings.HasPrefix(got, "*6\r\n:1\r\n:2\r\n:0\r\n") {
		t.Errorf("the second, by RESP: %q", got)
	}
	last := s.ask(t, "http", "POST", "/v1/allow", `{"policy":"default","key":"me"}`)
	if last.status != http.StatusTooManyRequests || last.header.Get("Retry-After") == "" {
		t.Errorf("the third: %+v", last)
	}
	if got := s.ask(t, "admin", "POST", "/v1/reset", `{"policy":"default","key":"me"}`); got.status/100 != 2 {
		t.Errorf("reset: %+v", got)
	}
	if got := s.allow(t, "default", "me"); got != http.StatusOK {
		t.Errorf("after the reset: %d", got)
	}
	for _, path := range []string{"/v1/reset", "/v1/explain", "/metrics", "/v1/top"} {
		if got := s.ask(t, "http", "GET", path, ""); got.status != http.StatusNotFound && got.status != http.StatusMethodNotAllowed {
			t.Errorf("%s is on the public door: %+v", path, got)
		}
	}
}

// resp sends a command and returns the answer.
func (s *service) resp(t *testing.T, command string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Address("resp"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s\r\nQUIT\r\n", command)
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestFirstMinute: with no more than a limit, the service refuses and tells a time at which it admits.
func TestFirstMinute(t *testing.T) {
	s := start(t, "policies: {default: {limits: [1/200ms sliding-log]}}\n", nil)
	var refused reply // the second, unless the machine took longer than the window for two
	testkit.Eventually(t, "somebody is refused", func() bool {
		refused = s.ask(t, "http", "POST", "/v1/allow", `{"key":"me"}`)
		return refused.status == http.StatusTooManyRequests
	})
	var told struct {
		RetryAfter int64 `json:"retry_after_us"`
	}
	if err := json.Unmarshal([]byte(refused.body), &told); err != nil || told.RetryAfter < 1 || told.RetryAfter > 200_000 || refused.header.Get("Retry-After") != "1" {
		t.Fatalf("got %+v, %v, want retry_after_us of 1 to 200000 and Retry-After 1", refused, err)
	}
	<-time.After(time.Duration(told.RetryAfter) * time.Microsecond)
	if got := s.allow(t, "", "me"); got != http.StatusOK {
		t.Errorf("at the time that was told: %d", got)
	}
}

func TestHealthAndMetrics(t *testing.T) {
	s := start(t, plain, nil)
	for range 3 {
		s.allow(t, "default", "a secret key")
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		for _, door := range []string{"http", "admin"} {
			if got := s.ask(t, door, "GET", path, ""); got.status != http.StatusOK {
				t.Errorf("%s of %s: %+v", path, door, got)
			}
		}
	}
	metrics := s.ask(t, "admin", "GET", "/metrics", "").body
	for _, want := range []string{
		`outcome="admitted",policy="default"} 2`, `outcome="refused",policy="default"} 1`,
		`slidegate_connections{door="http"}`, "go_goroutines",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics have no %s:\n%s", want, metrics)
		}
	}
	if strings.Contains(metrics, "secret") || s.Log.Has("secret") {
		t.Error("a key is in the metrics or in the log")
	}
	top := s.ask(t, "admin", "GET", "/v1/top", "").body
	if !strings.Contains(top, `"key":"a secret key","refused":1`) {
		t.Errorf("top: %s", top)
	}
	for _, n := range []string{"0", "x", "-1", "100000"} {
		if got := s.ask(t, "admin", "GET", "/v1/top?n="+n, ""); got.status != http.StatusBadRequest {
			t.Errorf("n=%s: got %+v, want 400", n, got)
		}
	}
}

func TestTokens(t *testing.T) {
	const token = "0123456789abcdef"
	s := start(t, plain, func(o *server.Options) { o.Tokens = []string{"another token of some length", token} })
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
			t.Errorf("%q: %d, not %d", test.headers, got, test.want)
		}
	}
	for _, path := range []string{"/metrics", "/v1/top", "/v1/explain?key=me"} {
		if got := s.ask(t, "admin", "GET", path, ""); got.status != http.StatusUnauthorized {
			t.Errorf("%s of admin: %+v", path, got)
		}
	}
	if got := s.ask(t, "http", "GET", "/healthz", ""); got.status != http.StatusOK {
		t.Errorf("healthz: %+v", got)
	}
	if got := s.resp(t, "SG.ALLOW default me"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("RESP: %q", got)
	}
}

func TestWrongOptions(t *testing.T) {
	file, err := config.Parse("f", []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	good := server.Options{File: file, HTTP: "127.0.0.1:0"}
	for _, test := range []struct {
		change func(*server.Options)
		want   string
	}{
		{func(o *server.Options) { o.File = nil }, "File: "},
		{func(o *server.Options) { o.HTTP = "" }, "no listener is configured"},
		{func(o *server.Options) { o.HTTP = "127.0.0.1:99999" }, "HTTP: "},
		{func(o *server.Options) { o.Admin = "0.0.0.0:0" }, "tokens"},
		{func(o *server.Options) { o.Admin = ":0" }, "tokens"},
		{func(o *server.Options) { o.Tokens = []string{"short"} }, "at least 16"},
		{func(o *server.Options) { o.TLS.Cert = missing }, "TLS.Key: "},
		{func(o *server.Options) { o.TLS = server.TLS{Cert: missing, Key: missing} }, missing},
		{func(o *server.Options) { o.TLS.ClientCA = missing }, "need TLS"},
		{func(o *server.Options) { o.State = filepath.Join(missing, "state") }, "State: "},
		{func(o *server.Options) { o.Envoy = []string{missing} }, missing},
		{func(o *server.Options) { o.Drain = -1 }, "Drain: must not be negative"},
	} {
		opts := good
		test.change(&opts)
		if _, err := server.New(t.Context(), opts); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}
