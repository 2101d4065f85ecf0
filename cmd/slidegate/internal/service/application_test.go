package service_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// withApplication puts a server in front of an application, with all other listeners open. Without a handler, the application echoes the
// request.
func withApplication(t *testing.T, handler http.HandlerFunc) func(*service.Options) {
	if handler == nil {
		handler = func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "application %s host=%s token=%s xff=%s", r.URL.Path, r.Host, r.Header.Get("Authorization"), r.Header.Get("X-Forwarded-For"))
		}
	}
	application := httptest.NewServer(handler)
	t.Cleanup(application.Close)
	return func(o *service.Options) {
		o.Proxy, o.Metrics = "127.0.0.1:0", "127.0.0.1:0"
		o.Application.To, _ = url.Parse(application.URL)
	}
}

// TestProxyIsOperated: refusals of the proxy can be listed, explained and reset on the admin listener.
func TestProxyIsOperated(t *testing.T) {
	s := start(t, "policies: {site: {limits: [2/1h]}}\n", withApplication(t, nil))
	for i, want := range []int{200, 200, 429, 429} {
		if got := s.send(t, "proxy", "GET", "/", "").status; got != want {
			t.Errorf("request %d: got %d, want %d", i, got, want)
		}
	}
	for _, step := range []struct {
		listener, method, path, body string
		status                       int
		want                         string
	}{
		{"admin", "GET", "/v1/seen", "", 200, `"masked":"12…1","admitted":2,"refused":2,`},
		{"admin", "POST", "/v1/peek", `{"policy":"site","key":"127.0.0.1"}`, 200, `"remaining":0`},
		{"admin", "GET", "/v1/explain?policy=site&key=127.0.0.1", "", 200, "site"},
		{"admin", "GET", "/metrics", "", 200, "slidegate_policy_decisions_total{"},
		{"metrics", "GET", "/metrics", "", 200, `slidegate_connections{listener="proxy"} 1`},
		{"metrics", "GET", "/healthz", "", 200, "ok"},
		{"metrics", "GET", "/readyz", "", 200, "ready"},
		{"admin", "GET", "/healthz", "", 200, "ok"},
		{"admin", "GET", "/readyz", "", 200, "ready"},
		{"admin", "POST", "/v1/reset", `{"policy":"site","key":"127.0.0.1"}`, 204, ""},
		{"proxy", "GET", "/again", "", 200, "application /again"},
	} {
		got := s.send(t, step.listener, step.method, step.path, step.body)
		if got.status != step.status || !strings.Contains(got.body, step.want) {
			t.Errorf("%s %s at %s: got %d %s, want %d and %s", step.method, step.path, step.listener, got.status, got.body, step.status, step.want)
		}
	}
}

// TestApplicationHasAllPaths: the proxy listener serves no paths of its own, under any host name, and requires no token.
func TestApplicationHasAllPaths(t *testing.T) {
	s := start(t, roomy, func(o *service.Options) {
		withApplication(t, nil)(o)
		o.Tokens, o.AdminTokens = []string{clientToken}, []string{"ann:operator:" + adminToken}
	})
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/v1/allow", "/v1/check", "/v1/seen", "/v1/reset"} {
		got := s.send(t, "proxy", "GET", path, "", "Authorization", "Bearer theirs")
		if want := "application " + path + " host=" + s.Address("proxy") + " token=Bearer theirs"; got.status != 200 || !strings.HasPrefix(got.body, want) {
			t.Errorf("%s: got %d %s, want %s", path, got.status, got.body, want)
		}
	}
	request, err := http.NewRequest("GET", "http://"+s.Address("proxy")+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "www.example"
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != 200 || !strings.Contains(string(text), "host=www.example ") {
		t.Errorf("under another host name: got %s %s, want 200", response.Status, text)
	}
	for token, want := range map[string]int{"": http.StatusUnauthorized, clientToken: http.StatusUnauthorized, adminToken: http.StatusOK} {
		if got := s.send(t, "admin", "GET", "/v1/seen", "", "Authorization", "Bearer "+token).status; got != want {
			t.Errorf("the admin listener with the token %q: got %d, want %d", token, got, want)
		}
	}
}

// TestProxyTrustIsReloaded: a reload changes the trusted proxies, for the limits and for the headers to the application.
func TestProxyTrustIsReloaded(t *testing.T) {
	var path string
	s := start(t, roomy, func(o *service.Options) {
		withApplication(t, nil)(o)
		path = o.Paths[0]
	})
	forwardedFor := func() string {
		_, xff, _ := strings.Cut(s.send(t, "proxy", "GET", "/", "", "X-Forwarded-For", "192.0.2.1").body, "xff=")
		return xff
	}
	if got := forwardedFor(); got != "127.0.0.1" {
		t.Errorf("before: got %s", got)
	}
	write(t, path, "trusted_proxies: [127.0.0.1]\n"+roomy)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := forwardedFor(); got != "192.0.2.1, 127.0.0.1" {
		t.Errorf("after: got %s", got)
	}
}

// TestProxyDrains: requests in progress are answered, new connections are refused, readiness reports it, and the counts are kept.
func TestProxyDrains(t *testing.T) {
	came, finish := make(chan bool, 1), make(chan bool)
	state := filepath.Join(t.TempDir(), "state")
	file := "policies: {site: {limits: [1/1h]}}\n"
	s := start(t, file, func(o *service.Options) {
		withApplication(t, func(w http.ResponseWriter, _ *http.Request) {
			came <- true
			<-finish
			fmt.Fprint(w, "whole")
		})(o)
		o.State = state
	})
	got := make(chan reply, 1)
	go func() { got <- s.send(t, "proxy", "GET", "/", "") }()
	select {
	case <-came:
	case <-time.After(testkit.Patience):
		t.Fatal("the request did not arrive")
	}
	s.End()
	testkit.Eventually(t, "new connections are refused", func() bool {
		conn, err := net.Dial("tcp", s.Address("proxy"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	close(finish)
	if response := <-got; response.status != 200 || response.body != "whole" {
		t.Errorf("the request in progress: got %d %s, want 200", response.status, response.body)
	}
	s.Stop(t)
	if s.Log.Has("level=WARN") {
		t.Errorf("unexpected log:\n%s", s.Log)
	}
	again := start(t, file, func(o *service.Options) {
		withApplication(t, nil)(o)
		o.State = state
	})
	if got := again.send(t, "proxy", "GET", "/", "").status; got != http.StatusTooManyRequests {
		t.Errorf("the second of 1, after a restart: got %d, want 429", got)
	}
}

// TestProxySlots: the proxy enforces in-flight limits, so there is no warning about them.
func TestProxySlots(t *testing.T) {
	s := start(t, "policies: {held: {limits: [1 in-flight ttl=30s]}}\n", func(o *service.Options) {
		withApplication(t, nil)(o)
		o.HTTP, o.RESP = "", ""
	})
	for range 2 {
		if got := s.send(t, "proxy", "GET", "/", "").status; got != 200 {
			t.Errorf("got %d, want 200: the slot is free", got)
		}
	}
	if s.Log.Has("in-flight") {
		t.Errorf("unexpected log:\n%s", s.Log)
	}
}
