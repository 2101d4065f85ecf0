package forward

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

const loopback = "127.0.0.1:5000"

// summary summarizes a response: the status, the actual status in the mode nginx, the headers.
func summary(r *http.Response) string {
	text := fmt.Sprint(r.StatusCode)
	for _, name := range []string{Status, "Retry-After", "RateLimit", "RateLimit-Policy"} {
		if value := r.Header.Get(name); value != "" {
			text += " " + name + ": " + value
		}
	}
	return text
}

func expect(t *testing.T, r *http.Response, want string) {
	t.Helper()
	if got := summary(r); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// 3 per minute and, for logins, 1 per hour, requested at the beginning of an hour.
func TestTraefikAndCaddy(t *testing.T) {
	s := newService(t, Options{}, false)
	const policy = ` RateLimit-Policy: "site";q=3;w=60`
	expect(t, s.send(loopback, Path, traefik("GET", "/", "203.0.113.7")...), `200 RateLimit: "site";r=2;t=60`+policy)
	expect(t, s.send(loopback, Path, traefik("POST", "/login?next=/", "203.0.113.7")...),
		`200 RateLimit: "site";r=1;t=60, "login";r=0;t=3600 RateLimit-Policy: "site";q=3;w=60, "login";q=1;w=3600`)
	expect(t, s.send(loopback, Path, traefik("POST", "/login", "203.0.113.7")...),
		`429 Retry-After: 3600 RateLimit: "site";r=1;t=60, "login";r=0;t=3600 RateLimit-Policy: "site";q=3;w=60, "login";q=1;w=3600`)
	expect(t, s.send(loopback, Path, traefik("GET", "/login", "203.0.113.7")...), `200 RateLimit: "site";r=0;t=60`+policy)
	s.add(1500 * time.Millisecond)
	refused := s.send(loopback, Path, traefik("GET", "/", "203.0.113.7")...)
	expect(t, refused, `429 Retry-After: 59 RateLimit: "site";r=0;t=59`+policy)
	var body map[string]any
	must(t, json.NewDecoder(refused.Body).Decode(&body))
	if body["status"] != 429.0 || body["detail"] != "The quota is used up. Try again in 59 seconds." || fmt.Sprint(body["violated-policies"]) != "[site]" {
		t.Errorf("got %v, want status 429, a detail with 59 seconds, violated-policies [site]", body)
	}
	if refused.Header.Get("Content-Type") != "application/problem+json" || refused.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %v, want application/problem+json and no-store", refused.Header)
	}
	expect(t, s.send(loopback, Path, traefik("GET", "/", "203.0.113.8")...), `200 RateLimit: "site";r=2;t=59`+policy)
	expect(t, s.send(loopback, Path, traefik("GET", "/", "127.0.0.66")...), `403`)
}

func TestNginx(t *testing.T) {
	for _, c := range []struct {
		opts   Options
		target string
	}{{Options{}, Path + "?mode=nginx"}, {Options{Mode: Nginx}, Path}} {
		s := newService(t, c.opts, false)
		const policy = ` RateLimit-Policy: "site";q=3;w=60`
		for _, left := range []string{"2;t=60", "1;t=60", "0;t=60"} {
			expect(t, s.send(loopback, c.target, nginx("GET", "/", "203.0.113.7")...), `200 RateLimit: "site";r=`+left+policy)
		}
		expect(t, s.send(loopback, c.target, nginx("GET", "/", "203.0.113.7")...),
			`403 X-Slidegate-Status: 429 Retry-After: 60 RateLimit: "site";r=0;t=60`+policy)
		expect(t, s.send(loopback, c.target, nginx("GET", "/", "127.0.0.66")...), `403 X-Slidegate-Status: 403`)
		s.broken.Store(true)
		expect(t, s.send(loopback, c.target, nginx("GET", "/", "203.0.113.7")...), `403 X-Slidegate-Status: 503`)
	}
}

// Headers that a client adds to those of the proxy change neither the client nor the request.
func TestForgedHeaders(t *testing.T) {
	lies := []string{
		"X-Real-Ip: 6.6.6.6", "Forwarded: for=6.6.6.6", "X-Slidegate-Mode: nginx", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /free",
		"X-Forwarded-Host: free.example", "X-Original-Method: GET", "X-Original-Uri: /free", "X-Slidegate-Status: 200",
	}
	without := func(names ...string) (left []string) {
		for _, lie := range lies {
			if name, _, _ := strings.Cut(lie, ": "); !strings.Contains(strings.Join(names, ","), name) {
				left = append(left, lie)
			}
		}
		return left
	}
	for name, send := range map[string]func(s *service, client string) *http.Response{
		"forwarded": func(s *service, client string) *http.Response { // Traefik overwrites its own headers
			return s.send(loopback, Path, traefik("POST", "/login", client, without("X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host")...)...)
		},
		"nginx": func(s *service, client string) *http.Response { // and nginx those that the configuration sets
			return s.send(loopback, Path+"?mode=nginx", nginx("POST", "/login", client, without("X-Original-Method", "X-Original-Uri")...)...)
		},
	} {
		s := newService(t, Options{}, false)
		if got := send(s, "203.0.113.7"); got.StatusCode != 200 {
			t.Errorf("%s: got %s, want 200", name, summary(got))
		}
		for _, client := range []string{"203.0.113.7", "6.6.6.6, 203.0.113.7", "6.6.6.6, 127.0.0.1, 203.0.113.7", ",,, 203.0.113.7:4711", "x,203.0.113.7"} {
			if got := send(s, client); got.StatusCode == 200 || got.Header.Get("Retry-After") != "3600" {
				t.Errorf("%s: %s: got %s, want a refusal", name, client, summary(got))
			}
		}
		if got := send(s, "203.0.113.8"); got.StatusCode != 200 {
			t.Errorf("%s: another client: got %s, want 200", name, summary(got))
		}
	}
}

// A policy can match a host and a header of the original request.
func TestRebuiltRequest(t *testing.T) {
	s := newService(t, Options{}, false)
	for i, c := range []struct {
		host, tenant string
		status       int
	}{
		{"shop.example", "a", 200}, {"shop.example", "a", 429}, {"shop.example", "b", 200}, {"SHOP.example", "b", 429},
		{"shop.Example.", "b", 429}, {"shop.example.:443", "b", 429}, {"shop.example:443", "c", 200}, {"another.example", "c", 200}, {"[::1]:80", "c", 200},
	} {
		client := fmt.Sprintf("X-Forwarded-For: 1.0.0.%d", i)
		if got := s.send(loopback, Path, "X-Forwarded-Method: GET", "X-Forwarded-Uri: /cart", "X-Forwarded-Host: "+c.host, client,
			"X-Tenant: "+c.tenant); got.StatusCode != c.status {
			t.Errorf("step %d: got %s", i, summary(got))
		}
	}
	if got := s.send(loopback, Path+"?mode=nginx", "Host: shop.example", "X-Original-Method: GET", "X-Original-URI: /", "X-Tenant: b"); got.StatusCode != 403 {
		t.Errorf("nginx: got %s, want status 403", summary(got))
	}
	// A proxy may pass on the client's query, which is ignored.
	for _, query := range []string{"?a=b", "?a;b", "?%zz", "?a=1&a=2"} {
		if got := s.send(loopback, Path+query, traefik("GET", "/"+query, "1.0.1.1"+fmt.Sprint(len(query)))...); got.StatusCode != 200 {
			t.Errorf("%s: got %s, want 200", query, summary(got))
		}
	}
	for range 2 { // the policy is in shadow mode
		if got := s.send(loopback, Path, traefik("GET", "/watch", "1.0.0.4")...); got.StatusCode != 200 {
			t.Errorf("got %s, want 200", summary(got))
		}
	}
}

func TestTrustedCallers(t *testing.T) {
	var log bytes.Buffer
	s := newService(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, false)
	s.trust(t, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::ffff:172.16.0.0/108")})
	for peer, want := range map[string]int{
		"127.0.0.1:1": 403, "127.9.9.9:1": 403, "[::1]:1": 403, "[::ffff:127.0.0.1]:1": 403, "10.1.2.3:1": 200, "[::ffff:10.1.2.3]:1": 200,
		"172.16.0.1:1": 200, "172.32.0.1:1": 403, "11.0.0.1:1": 403, "203.0.113.7:1": 403, "[2001:db8::1]:1": 403, "@": 403, "": 403, "nonsense": 403,
	} {
		client := "198.51.100." + fmt.Sprint(len(peer)) // has not used up its quota
		if got := s.send(peer, Path, traefik("GET", "/", client)...); got.StatusCode != want {
			body, _ := io.ReadAll(got.Body)
			t.Errorf("%s: got %s %s, want %d", peer, summary(got), body, want)
		}
		s.add(time.Minute)
	}
	if text := log.String(); !strings.Contains(text, "request from an untrusted proxy") || strings.Contains(text, "203.0.113.7") {
		t.Errorf("got the log %q", text)
	}
	s.trust(t, []netip.Prefix{netip.MustParsePrefix("203.0.113.7/32")})
	for peer, want := range map[string]int{"10.1.2.3:1": 403, "203.0.113.7:1": 200, "127.0.0.1:1": 403} {
		if got := s.send(peer, Path, traefik("GET", "/", "1.2.3.4")...); got.StatusCode != want {
			t.Errorf("after a reload: %s: got %s", peer, summary(got))
		}
	}
	unix := newService(t, Options{TrustUnix: true}, false)
	for peer, want := range map[string]int{"@": 200, "": 200, "/run/nginx.sock": 200, "nonsense": 403} {
		if got := unix.send(peer, Path, traefik("GET", "/", "1.2.3.4")...); got.StatusCode != want {
			t.Errorf("with TrustUnix: %q: got %s", peer, summary(got))
		}
		unix.add(time.Minute)
	}
}

func TestBadRequests(t *testing.T) {
	s := newService(t, Options{}, false)
	good := traefik("GET", "/", "1.2.3.4")
	for _, c := range []struct {
		target string
		lines  []string
		want   string
	}{
		{Path + "?mode=apache", good, "forward: mode: must be forwarded or nginx"},
		{Path + "?polcy=x", good, "did you mean policy?"},
		{Path + "?mode=nginx&mode=nginx", good, "duplicate"},
		{Path + "?policy=", good, "is empty"},
		{Path + "?mode=%zz", good, "invalid query"},
		{Path + "?page=1&mode=nginx", append(nginx("GET", "/", "1.2.3.4"), "X-Forwarded-Uri: /x?page=1&mode=nginx"), "question mark"},
		{Path + "?p%6flicy=login", traefik("GET", "/?p%6flicy=login", "1.2.3.4"), "question mark"},
		{Path + "?mode=nginx", good, "X-Original-Method: is missing"},
		{Path, nginx("GET", "/", "1.2.3.4"), "X-Forwarded-Method: is missing"},
		{Path, nil, "X-Forwarded-Method: is missing"},
		{Path, []string{"X-Forwarded-Method: GET"}, "X-Forwarded-Uri: is missing"},
		{Path, append(good, "X-Forwarded-Uri: /b"), "X-Forwarded-Uri: duplicate header"},
		{Path, append(good, "X-Forwarded-Method: PUT"), "X-Forwarded-Method: duplicate header"},
		{Path, append(good, "X-Forwarded-Host: b"), "X-Forwarded-Host: duplicate header"},
		{Path, traefik("G T", "/", "1.2.3.4"), "not a method"},
		{Path, traefik("GET", "nonsense", "1.2.3.4"), "not a path"},
		{Path, traefik("GET", "/%zz", "1.2.3.4"), "not a path"},
	} {
		got := s.send(loopback, c.target, c.lines...)
		body, _ := io.ReadAll(got.Body)
		if got.StatusCode != 400 || !strings.Contains(string(body), c.want) || got.Header.Get("RateLimit") != "" {
			t.Errorf("%s %q: got %d %s, want %q", c.target, c.lines, got.StatusCode, body, c.want)
		}
	}
	if _, err := New(nil, Options{}); err == nil || !strings.HasPrefix(err.Error(), "forward: gate: ") {
		t.Errorf("got the error %v, want one about gate", err)
	}
	if _, err := New(s.gate, Options{Mode: "apache"}); err == nil || !strings.HasPrefix(err.Error(), "forward: Mode: ") {
		t.Errorf("got the error %v, want one about Mode", err)
	}
}

// If nothing can be counted, it is not the client's fault: 503, and a Retry-After in the failure mode closed.
func TestStoreDown(t *testing.T) {
	var log bytes.Buffer
	s := newService(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, false)
	s.broken.Store(true)
	for range 3 {
		got := s.send(loopback, Path, traefik("GET", "/", "203.0.113.7")...)
		body, _ := io.ReadAll(got.Body)
		if expect(t, got, "503"); strings.Contains(string(body), "10.1.2.3") {
			t.Errorf("got the body %s, want it without machine names", body)
		}
	}
	if text := log.String(); !strings.Contains(text, "connection refused") || strings.Contains(text, "203.0.113.7") || strings.Count(text, "\n") > 2 {
		t.Errorf("got the log %q", text)
	}
	closed := newService(t, Options{}, true)
	closed.broken.Store(true)
	expect(t, closed.send(loopback, Path, traefik("GET", "/", "203.0.113.7")...), "503 Retry-After: 1")
}

// ?policy=NAME applies just that policy, whatever it matches.
func TestPolicyParameterSelectsOnePolicy(t *testing.T) {
	s := newService(t, Options{}, false)
	const policy = ` RateLimit-Policy: "login";q=1;w=3600`
	expect(t, s.send(loopback, Path+"?policy=login", traefik("GET", "/", "1.2.3.4")...), `200 RateLimit: "login";r=0;t=3600`+policy)
	expect(t, s.send(loopback, Path+"?policy=login&mode=nginx", nginx("GET", "/", "1.2.3.4")...),
		`403 X-Slidegate-Status: 429 Retry-After: 3600 RateLimit: "login";r=0;t=3600`+policy)
	expect(t, s.send(loopback, Path+"?policy=logn", traefik("GET", "/", "1.2.3.4")...), "400")
}

// A policy with an in-flight limit cannot be checked, since nothing would release the slot: the error is logged, and
// the request is not admitted. A policy in shadow mode keeps no request out.
func TestSlotsCannotBeChecked(t *testing.T) {
	var log bytes.Buffer
	s := newService(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, false)
	for _, target := range []string{Path, Path + "?policy=slots"} {
		expect(t, s.send(loopback, target, traefik("GET", "/slots", "1.2.3.4")...), "500")
	}
	expect(t, s.send(loopback, Path+"?mode=nginx", nginx("GET", "/slots", "1.2.3.4")...), "403 X-Slidegate-Status: 500")
	if text := log.String(); !strings.Contains(text, `policy \"slots\"`) || !strings.Contains(text, "/v1/acquire") || strings.Contains(text, "1.2.3.4") {
		t.Errorf("got the log %q, want the policy and what to do", text)
	}
	if got := s.send(loopback, Path, traefik("GET", "/dark", "1.2.3.4")...); got.StatusCode != 200 {
		t.Errorf("a policy in shadow mode: got %d, want 200", got.StatusCode)
	}
}
