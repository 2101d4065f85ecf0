package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The commands for operators work with the admin listener of a proxy, and counts survive a restart.
func TestProxyOperatorCommands(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	args := []string{"--to", hello(t), "--limit", "1/1h", "--route", "GET /login=9/1h", "--metrics", "127.0.0.1:0", "--state", filepath.Join(t.TempDir(), "state")}
	p := startProxy(t, args...)
	for i, want := range []int{200, 429, 429} {
		if got := p.send("GET", "/"); got != want {
			t.Errorf("request %d: got %d, want %d", i, got, want)
		}
	}
	if _, page := p.page("metrics", "/readyz"); page != "ready\n" {
		t.Errorf("/readyz: got %s, want ready", page)
	}
	p.mustEnd(syscall.SIGTERM)
	p = startProxy(t, args...)
	if got := p.send("GET", "/"); got != 429 {
		t.Errorf("after a restart: got %d, want 429", got)
	}
	if _, seen := p.page("admin", "/v1/seen"); !strings.Contains(seen, `"masked":"12…1"`) {
		t.Errorf("/v1/seen: got %s, want the address", seen)
	}
	commandLines{
		{[]string{"peek", "127.0.0.1"}, exitRefused, "refused by 1/1h"},
		{[]string{"reset", "127.0.0.1"}, exitOK, `"127.0.0.1" under the policy default: reset`},
		{[]string{"block", "Ann"}, exitFailure, "key: must be an address"}, // no request has this key
		{[]string{"block", "Ann", "--policy", "get-login"}, exitFailure, "key: must be an address"},
		{[]string{"peek", "127.0.0.1"}, exitOK, "allowed"},
	}.play(t, "--server", p.url("admin"))
	if got := p.send("GET", "/"); got != 200 {
		t.Errorf("after the reset: got %d, want 200", got)
	}
	p.interrupt()
}

// A request that the proxy rejects is explained as rejected, unless it forwards such requests.
func TestExplainWhatProxyRejects(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	policies := write(t, "policies.yaml", []byte("policies: {users: {key: 'header:X-User', limits: [9/1h]}}\n"))
	args := []string{"--to", hello(t), "--config", policies}
	strict, lenient := startProxy(t, args...).url("admin"), startProxy(t, append(args, "--allow-ambiguous")...).url("admin")
	for _, c := range []struct{ request, header, want string }{
		{"get /x", "X-User: ann", "rejected, whatever the policies decide: The method has small letters"},
		{"GET //a@b/x", "X-User: ann", "rejected, whatever the policies decide: The target of the request begins with //"},
		{"GET /x#y", "X-User: ann", "rejected, whatever the policies decide: The target of the request contains a #"},
		{"GET /x", "X-User: bob", "rejected, whatever the policies decide: The request has more than one line of X-User"},
	} {
		args := []string{"explain", "--request", c.request, "--header", c.header, "--header", "X-Other: x"}
		if c.request == "GET /x" {
			args = append(args, "--header", "X-User: eve")
		}
		commandLines{{args, exitOK, c.want}}.play(t, "--server", strict)
		commandLines{{args, exitOK, "allowed\n"}}.play(t, "--server", lenient)
	}
	commandLines{{[]string{"explain", "--request", "GET /x", "--header", "X-User: ann", "--header", "X_User: eve"}, exitOK, "allowed\n"}}.play(t, "--server", strict)
}

// With --log-format json, all output of a proxy is JSON, including its listeners and errors.
func TestProxyJSONLog(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := launch(t, nil, "proxy", "--to", "http://127.0.0.1:1", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json")
	if !s.await(`"listener":"admin"`) {
		t.Fatalf("the proxy did not start:\n%s", s.text())
	}
	logged := map[any]map[string]any{}
	for _, line := range jsonLines(t, s.text()) {
		logged[line["msg"]] = line
		if line["listener"] == "proxy" {
			s.addresses["listens"], _ = line["address"].(string)
		}
	}
	if status, _ := s.page("listens", "/"); status != http.StatusBadGateway {
		t.Errorf("application is down: got %d, want 502", status)
	}
	s.mustEnd(syscall.SIGTERM)
	jsonLines(t, s.text())
	if !s.printed(`"msg":"proxy: the application could not be reached"`) || logged["running"]["to"] != "http://127.0.0.1:1" {
		t.Errorf("got\n%s\nwant a line about the application and the URL in the first line", s.text())
	}
	failed := launch(t, nil, "proxy", "--to", "http://h", "--http", taken.Addr().String(), "--admin", "off", "--log-format", "json")
	if status := failed.status(); status != exitFailure {
		t.Errorf("got status %d, want %d", status, exitFailure)
	}
	lines := jsonLines(t, failed.text())
	if text, _ := lines[len(lines)-1]["error"].(string); !strings.HasPrefix(text, "--http: ") {
		t.Errorf("got\n%s\nwant an error about --http", failed.text())
	}
}

// With tracing, events are still flushed and websockets still work; spans contain neither client nor path.
func TestProxyTracing(t *testing.T) {
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.WriteString(w, "first")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(conn, buffered)
	}))
	t.Cleanup(application.Close)
	c := newCollector(t)
	s := launch(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL}, "proxy", "--to", application.URL, "--http", "127.0.0.1:0", "--admin", "off",
		"--otlp", "--drain", "1s", "--log-format", "json")
	if !s.await(`"listener":"proxy"`) {
		t.Fatalf("the proxy did not start:\n%s", s.text())
	}
	for _, line := range jsonLines(t, s.text()) {
		if line["listener"] == "proxy" {
			s.addresses["listens"], _ = line["address"].(string)
		}
	}
	events, err := http.Get(s.url("listens") + "/secret-path?secret-query")
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 5)
	if _, err := io.ReadFull(events.Body, first); err != nil || string(first) != "first" {
		t.Errorf("first event: got %q, %v", first, err)
	}
	events.Body.Close()
	conn, err := net.Dial("tcp", s.addresses["listens"])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(longWait))
	_, _ = io.WriteString(conn, "GET /secret-path HTTP/1.1\r\nHost: secret-host\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	from := bufio.NewReader(conn)
	if response, err := http.ReadResponse(from, nil); err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("websocket: got %+v, %v, want 101", response, err)
	}
	_, _ = io.WriteString(conn, "x")
	if b, err := from.ReadByte(); b != 'x' {
		t.Errorf("got %q, %v, want x", b, err)
	}
	conn.Close()
	s.mustEnd(syscall.SIGTERM)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sent["POST /v1/traces"]) == 0 || len(c.sent["POST /v1/metrics"]) == 0 {
		t.Errorf("got no metrics or no traces:\n%s", s.text())
	}
	for path, text := range c.sent {
		if at := bytes.Index(text, []byte("secret")); at >= 0 {
			t.Errorf("%s: got %q, want no secrets", path, text[at:min(len(text), at+20)])
		}
	}
}
