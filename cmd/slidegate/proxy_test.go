package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// runningProxy is the program running as a proxy.
type runningProxy struct {
	*runningService
	at      string   // the URL of its listener
	welcome []string // the lines that it printed at the start
}

// startProxy starts the program and waits until it has printed its listeners.
func startProxy(t *testing.T, args ...string) *runningProxy {
	t.Helper()
	free := []string{"proxy", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	s := launch(t, nil, append(free, args...)...)
	if !s.await("  listens ") { // the banner is written at once
		t.Fatalf("the proxy did not start:\n%s", s.text())
	}
	p := &runningProxy{runningService: s, welcome: strings.Split(s.text(), "\n")}
	for _, found := range regexp.MustCompile(`(?m)^  (listens|admin|metrics) +http://(127\.0\.0\.1:\d+)`).FindAllStringSubmatch(s.text(), -1) {
		s.addresses[found[1]] = found[2]
	}
	p.at = s.url("listens")
	return p
}

// send sends a request and returns the status.
func (p *runningProxy) send(method, path string, header ...string) int {
	p.t.Helper()
	request, err := http.NewRequest(method, p.at+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, got.Body)
	got.Body.Close()
	return got.StatusCode
}

// interrupt sends the signal of Ctrl-C, and expects a clean shutdown without warnings.
func (p *runningProxy) interrupt() {
	p.t.Helper()
	p.mustEnd(os.Interrupt)
	if p.printed("level=WARN") {
		p.t.Errorf("got warnings:\n%s", p.text())
	}
}

func hello(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(server.Close)
	return server.URL
}

func TestProxyByFlags(t *testing.T) {
	to := hello(t)
	p := startProxy(t, "--to", to, "--limit", "4/1h sliding-log", "--route", "POST /login=2/1h sliding-log", "--route", "POST /login=100/1d",
		"--route", "/static/=1000/1m", "--key", "{header:X-Tenant}")
	for i, step := range []struct {
		method, path, tenant string
		want                 int
	}{
		{"POST", "/login", "a", 200}, {"POST", "/login", "a", 200}, {"POST", "/./login", "a", 429}, {"POST", "//login", "a", 400}, {"POST", "/login", "b", 200},
		{"GET", "/", "a", 200}, {"GET", "/", "a", 200}, {"GET", "/", "a", 429}, {"GET", "/", "b", 200},
	} {
		if got := p.send(step.method, step.path, "X-Tenant", step.tenant); got != step.want {
			t.Errorf("%d: %s %s of %s: got %d, want %d", i, step.method, step.path, step.tenant, got, step.want)
		}
	}
	p.interrupt()
	want := []string{"  to        " + to, "  limit     every request: 4/1h sliding-log by {header:X-Tenant}",
		"  limit     POST /login: 2/1h sliding-log, 100/24h by {header:X-Tenant}", "  limit     /static/: 1000/1m by {header:X-Tenant}",
		"  store     memory, lost on exit; --state DIR keeps it", "  listens   " + p.at,
		"  admin     " + p.url("admin") + "   a page for browsers, /metrics, explain, reset, rulings"}
	if strings.Join(p.welcome[1:], "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(p.welcome[1:], "\n"), strings.Join(want, "\n"))
	}
}

// Without --limit, only the routes have limits. The client's address is taken from a trusted proxy.
func TestProxyRoutesAlone(t *testing.T) {
	p := startProxy(t, "--to", hello(t), "--route", "/api/=1/1h sliding-log", "--trusted-proxies", "loopback", "--headers", "none")
	for range 101 { // one more than the default limit
		if got := p.send("GET", "/"); got != 200 {
			t.Fatalf("without a limit: got %d, want 200", got)
		}
	}
	for i, want := range []int{200, 429, 200} {
		if got := p.send("GET", "/api/x", "X-Forwarded-For", []string{"192.0.2.1", "192.0.2.1", "192.0.2.2"}[i]); got != want {
			t.Errorf("%d: got %d, want %d", i, got, want)
		}
	}
	p.interrupt()
}

func TestProxyByFile(t *testing.T) {
	policy := "policies:\n  login:\n    match: POST /login\n    key: address\n    limits: [%s]\n"
	path := write(t, "policies.yaml", []byte(fmt.Sprintf(policy, "1/1h sliding-log")))
	p := startProxy(t, "--to", hello(t), "--config", path)
	for i, want := range []int{200, 429} {
		if got := p.send("POST", "/login"); got != want {
			t.Errorf("%d: got %d, want %d", i, got, want)
		}
	}
	// Two of three are left after the file is reloaded.
	if err := os.WriteFile(path, []byte(fmt.Sprintf(policy, "3/1h sliding-log")), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the file is reloaded", func() bool { return p.send("POST", "/login") == 200 })
	if err := os.WriteFile(path, []byte("policies: {login: {limits: [wrong]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.await("not reloaded")
	for i, want := range []int{200, 429} {
		if got := p.send("POST", "/login"); got != want {
			t.Errorf("with an invalid file, %d: got %d, want %d", i, got, want)
		}
	}
	p.interrupt()
}

func TestProxyWrongFlags(t *testing.T) {
	file := write(t, "policies.yaml", []byte("policies: {p: {limits: [1/1s]}}"))
	status := write(t, "status.yaml", []byte("policies: {api: {key: '{status}', limits: [1/1s]}}"))
	for _, c := range []struct{ args, want string }{
		{"", "--to"},
		{"--to localhost:3000", "--to: must begin with http:// or https://"},
		{"--to http://h/app", "--to: must be only a scheme and a host; write http://h"},
		{"--to http://h --limit ten", "--limit: "},
		{"--to http://h --route /login", "write a pattern, = and a limit"},
		{"--to http://h --route /login=ten", "--route /login=ten: "},
		{"--to http://h --route /login=9/1h_notify=8", "--route /login=9/1h notify=8: invalid limit: notify: must be 1% to 100%"},
		{"--to http://h --limit 9_in-flight_ttl=1m_notify=80%", "--limit: invalid limit: notify: cannot be used with in-flight"},
		{"--to http://h --route post_/login=1/1s", `--route: methods are written in capitals; write "POST /login"`},
		{"--to http://h --route login=1/1s", `--route: "login" has no path; write "/login"`},
		{"--to http://h --route /api/*=1/1m", `--route: * is not a wildcard here; write "/api/"`},
		{"--to http://h --route ^/foo/.*$=1/1m", `write "/foo/"`},
		{"--to http://h --route /users/:id=1/1m", "write {id}"},
		{"--to http://h --route PSOT_/login=1/1m", `write "POST /login"`},
		{"--to http://h --route https://h/login=1/1m", `write "h/login"`},
		{"--to http://h --route /login?x=1/1m", `write "/login"`},
		{"--to http://h --key {nobody}", "--key: "},
		{"--to http://h --key {address} --key {user}", "--key: {user} is never reached"},
		{"--to http://h --key {status}", "slidegate: --key: {status} is known in recorded traffic only"},
		{"--to http://h --config " + status, status + `:1:23: key: {status} is known in recorded traffic only`},
		{"--to http://h --store ftp://x", "ftp"},
		{"--to http://h --failure never", "failure"},
		{"--to http://h --trusted-proxies everybody", "--trusted-proxies: "},
		{"--to http://h --trusted-proxies 0.0.0.0/0", "--trusted-proxies: "},
		{"--to http://h --config " + file + " --route /=1/1s", "leave out --route"},
		{"--to http://h --config " + file + " --limit 1/1s", "leave out --limit"},
		{"--to http://h --tls-cert x", "--tls-key"},
		{"--to http://h --tls-client-ca x", "--tls-client-ca"},
		{"--to http://h --tls-cert x --tls-key y", "--tls-cert: "},
		{"--to http://h --http 192.0.2.1:1", "--http: "},
		{"--to http://h --drain -1s", "--drain"},
		{"--to http://h --headers all", "--headers"},
	} {
		var args []string
		for _, arg := range strings.Fields(c.args) {
			args = append(args, strings.ReplaceAll(arg, "_", " "))
		}
		got := call(t, append([]string{"proxy", "--admin", "off"}, args...)...)
		if got.status != exitFailure || !strings.Contains(got.err, c.want) {
			t.Errorf("%s: got status %d and\n%swant %q", c.args, got.status, got.err, c.want)
		}
	}
}

// A limit in a flag has thresholds as one in a file does.
func TestThresholdsInFlags(t *testing.T) {
	p := &proxyCommand{Route: []string{"GET /login=9/1h notify=50%", "GET /login=5/1m notify=80%,100%"}}
	p.Limit = []string{"10/1h notify=80%"}
	file, err := p.file()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, policy := range file.Policies {
		for _, one := range policy.Notify {
			got = append(got, fmt.Sprintf("%s %s %d", policy.Name, one.Limit, one.Percent))
		}
	}
	if want := []string{"default 10/1h 80", "get-login 9/1h 50", "get-login 5/1m 80", "get-login 5/1m 100"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
