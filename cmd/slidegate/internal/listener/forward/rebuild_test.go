package forward

import (
	"net/http"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/clientip"
)

// setPeer replaces the peer with the proxy's peer.
func TestSetPeerFindsTheProxysPeer(t *testing.T) {
	for _, c := range []struct {
		lines []string
		peer  string
		left  string // lines separated by |
	}{
		{nil, "10.0.0.1:5", ""},
		{[]string{"203.0.113.7"}, "203.0.113.7:0", ""},
		{[]string{"6.6.6.6, 203.0.113.7"}, "203.0.113.7:0", "6.6.6.6"},
		{[]string{"6.6.6.6", "203.0.113.7"}, "203.0.113.7:0", "6.6.6.6"},
		{[]string{"6.6.6.6", "7.7.7.7, 203.0.113.7"}, "203.0.113.7:0", "6.6.6.6|7.7.7.7"},
		{[]string{"2001:db8::7"}, "[2001:db8::7]:0", ""},
		{[]string{"[2001:db8::7]:4711"}, "[2001:db8::7]:0", ""},
		{[]string{"6.6.6.6, unknown"}, "10.0.0.1:5", ""}, // invalid: never look further left
		{[]string{"6.6.6.6,"}, "10.0.0.1:5", ""},
		{[]string{"6.6.6.6", ""}, "10.0.0.1:5", ""},
		{[]string{"unix:"}, "10.0.0.1:5", ""},
	} {
		given := append([]string(nil), c.lines...)
		r := &http.Request{RemoteAddr: "10.0.0.1:5", Header: http.Header{}}
		if c.lines != nil {
			r.Header[forwardedFor] = given
		}
		setPeer(r)
		if got := strings.Join(r.Header[forwardedFor], "|"); r.RemoteAddr != c.peer || got != c.left {
			t.Errorf("%q: got %s and %q, want %s and %q", c.lines, r.RemoteAddr, got, c.peer, c.left)
		}
		if strings.Join(given, "|") != strings.Join(c.lines, "|") {
			t.Errorf("%q: the proxy's header was changed to %q", c.lines, given)
		}
	}
}

// A fragment is not part of the query, and stays in the path for the matchers, which read it with and without.
func TestRebuildWithFragment(t *testing.T) {
	for uri, want := range map[string][2]string{
		"/login": {"/login", ""}, "/login#1": {"/login#1", ""}, "/login#?a=b": {"/login#", "a=b"}, "/login?a=b#c": {"/login", "a=b"},
		"/login?a=b#c?d": {"/login", "a=b"}, "http://example.com/login#1": {"/login#1", ""}, "//a@b/login?#x": {"//a@b/login", ""},
	} {
		for mode, names := range requestHeaders {
			r := &http.Request{Header: http.Header{names.method: {"POST"}, names.uri: {uri}}}
			original, err := rebuild(r, mode)
			if err != nil || original.URL.Path != want[0] || original.URL.RawQuery != want[1] {
				t.Errorf("%s, %s: got %v, %v, want %s", mode, uri, original, err, want)
			}
		}
	}
	for _, uri := range []string{"#", "#/login", "http:login", "login", `\\x/login`} {
		r := &http.Request{Header: http.Header{"X-Original-Method": {"POST"}, "X-Original-Uri": {uri}}}
		if original, err := rebuild(r, Nginx); err == nil {
			t.Errorf("%s: got %v, want an error", uri, original)
		}
	}
}

// If the proxy is trusted, the client found after setPeer is the same as before, whatever the header says.
func FuzzSameClient(f *testing.F) {
	for _, line := range []string{"", "203.0.113.7", "6.6.6.6, 203.0.113.7", "6.6.6.6, 203.0.113.7, 10.0.0.2", "10.0.0.9, 10.0.0.2", "x, 10.0.0.2", ",", "[::1]:80"} {
		f.Add(line, "")
		f.Add("6.6.6.6", line)
	}
	proxies, err := clientip.ParseProxies("10.0.0.0/8")
	if err != nil {
		f.Fatal(err)
	}
	source, err := clientip.New(clientip.Options{Header: forwardedFor, Trusted: proxies})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		before := &http.Request{RemoteAddr: "10.0.0.1:5", Header: http.Header{forwardedFor: {first, second}}}
		after := &http.Request{RemoteAddr: "10.0.0.1:5", Header: http.Header{forwardedFor: {first, second}}}
		setPeer(after)
		got, want := source.Key(after), source.Key(before)
		// If all entries are proxies, any of them may be the client, as long as it is a proxy.
		if got != want && !(strings.HasPrefix(got, "10.") && strings.HasPrefix(want, "10.")) {
			t.Errorf("%q, %q: got %s, want %s as before", first, second, got, want)
		}
	})
}
