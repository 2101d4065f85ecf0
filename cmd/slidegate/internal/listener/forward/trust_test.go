package forward

import (
	"bytes"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/clientip"
)

const validToken = "0123456789abcdef"

func isValid(token string) bool { return token == validToken }

// proxies parses a list as in a file.
func proxies(t *testing.T, texts ...string) []netip.Prefix {
	t.Helper()
	all, err := clientip.ParseProxies(texts...)
	must(t, err)
	return append([]netip.Prefix{}, all...)
}

// TestLoopbackTrust: callers on the same machine are trusted only if no list is given and there are no tokens.
func TestLoopbackTrust(t *testing.T) {
	for _, test := range []struct {
		name    string
		trusted []netip.Prefix
		tokens  bool
		want    int
	}{
		{"no list", nil, false, 200},
		{"an empty list", proxies(t), false, 403},
		{"others are listed", proxies(t, "10.0.0.0/8"), false, 403},
		{"loopback is listed", proxies(t, "10.0.0.0/8", "loopback"), false, 200},
		{"tokens", nil, true, 403},
		{"tokens and an empty list", proxies(t), true, 403},
		{"tokens, and loopback is listed", proxies(t, "loopback"), true, 200},
	} {
		for _, peer := range []string{"127.0.0.1:1", "127.0.0.6:1", "[::1]:1", "[::ffff:127.0.0.1]:1"} {
			opts := Options{}
			if test.tokens {
				opts.ValidToken = isValid
			}
			s := newService(t, opts, false)
			s.trust(t, test.trusted)
			if got := s.send(peer, Path, traefik("GET", "/", "198.51.100.9")...); got.StatusCode != test.want {
				t.Errorf("%s: %s: got %s, want %d", test.name, peer, summary(got), test.want)
			}
			s.trust(t, nil)
			want := 200
			if test.tokens {
				want = 403
			}
			if got := s.send(peer, Path, traefik("GET", "/", "198.51.100.9")...); got.StatusCode != want {
				t.Errorf("%s: %s, after a reload without a list: got %s, want %d", test.name, peer, summary(got), want)
			}
		}
	}
}

// TestTokenOfProxy: a proxy with a token may call from any address, whatever headers the client sends.
func TestTokenOfProxy(t *testing.T) {
	for _, test := range []struct {
		target string
		lines  []string
		want   int
	}{
		{Path, nil, 403},
		{Path, []string{"X-Slidegate-Token: " + validToken}, 200},
		{Path, []string{"Authorization: Bearer " + validToken}, 200},
		{Path, []string{"Authorization: bearer  " + validToken}, 200},
		{Path, []string{"Authorization: Basic " + validToken}, 403},
		{Path, []string{"Authorization: " + validToken}, 403},
		{Path, []string{"X-Slidegate-Token: " + validToken[:15]}, 403},
		{Path, []string{"X-Slidegate-Token: "}, 403},
		{Path, []string{"Authorization: Bearer the-client's-own", "X-Slidegate-Token: " + validToken}, 200},
		{Path + "?token=" + validToken, nil, 200},
		{Path + "?policy=site&token=" + validToken, []string{"Authorization: Bearer the-client's-own"}, 200},
		{Path + "?token=", nil, 403},
		{Path + "?token=wrong", nil, 403},
		{Path + "?token=wrong&token=" + validToken, nil, 400},
		{Path + "?tokn=" + validToken, nil, 400},
	} {
		for _, peer := range []string{loopback, "203.0.113.7:1"} {
			s := newService(t, Options{ValidToken: isValid}, false)
			if got := s.send(peer, test.target, traefik("GET", "/", "198.51.100.9", test.lines...)...); got.StatusCode != test.want {
				t.Errorf("%s %q from %s: got %s, want %d", test.target, test.lines, peer, summary(got), test.want)
			}
		}
	}
	// A service without tokens accepts none.
	s := newService(t, Options{}, false)
	if got := s.send("203.0.113.7:1", Path+"?token="+validToken, traefik("GET", "/", "198.51.100.9")...); got.StatusCode != 403 {
		t.Errorf("a service without tokens: got %s, want 403", summary(got))
	}
	// A query that the proxy passes on is the client's.
	s = newService(t, Options{ValidToken: isValid}, false)
	if got := s.send(loopback, Path+"?token=x", traefik("GET", "/?token=x", "198.51.100.9", "X-Slidegate-Token: "+validToken)...); got.StatusCode != 200 {
		t.Errorf("a client's own token in its query: got %s, want 200", summary(got))
	}
}

// TestPoliciesAreNotListed: neither strangers nor clients that get a response through a proxy learn the names of
// policies.
func TestPoliciesAreNotListed(t *testing.T) {
	var log bytes.Buffer
	s := newService(t, Options{ValidToken: isValid, Logger: slog.New(slog.NewTextHandler(&log, nil))}, false)
	for _, test := range []struct {
		lines []string
		want  int
	}{
		{nil, 403},
		{[]string{"X-Slidegate-Token: " + validToken}, 400},
	} {
		got := s.send(loopback, Path+"?policy=zzz", traefik("GET", "/", "198.51.100.9", test.lines...)...)
		body, err := io.ReadAll(got.Body)
		must(t, err)
		if got.StatusCode != test.want {
			t.Errorf("%q: got %d, want %d", test.lines, got.StatusCode, test.want)
		}
		for _, policy := range []string{"site", "login", "shop", "watch"} {
			if strings.Contains(string(body), policy) {
				t.Errorf("%q: the response names the policy %s: %s", test.lines, policy, body)
			}
		}
	}
	if !strings.Contains(log.String(), "login") {
		t.Errorf("got the log %s, want the names of the policies", log.String())
	}
}
