package proxy_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// spoofedHeaders lists headers in which applications look for the client, the host, the scheme or the path.
var spoofedHeaders = []string{
	"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Uri", "X-Forwarded", "Forwarded",
	"Forwarded-For", "X-Real-IP", "Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "True-Client-IP", "CF-Connecting-IP", "CF-Connecting-IPv6",
	"Fastly-Client-IP", "Fly-Client-IP", "X-Azure-ClientIP", "X-Azure-SocketIP", "X-AppEngine-User-IP", "X-AppEngine-Remote-Addr", "DO-Connecting-IP",
	"WL-Proxy-Client-IP", "Proxy-Client-IP", "X-Envoy-External-Address", "X-Original-Forwarded-For", "X-Originating-IP", "X-Remote-IP", "X-Remote-Addr",
	"X-ProxyUser-IP", "X-NF-Client-Connection-IP", "X-Vercel-Forwarded-For", "Incap-Client-IP", "Ali-Cdn-Real-Ip", "Cdn-Src-Ip",
	"CloudFront-Viewer-Address", "X-Original-URL", "X-Rewrite-URL", "X-Original-URI", "X-Original-Host", "X-Host", "X-Script-Name",
	"X-Source-IP", "X-SourceIP", "X-Peer-IP", "X-Caller-IP", "X-Trusted-IP", "X-Remote-Host", "X-Viewer-Address", "X-Custom-IP-Authorization",
	"Request-URI", "X-Request-URI", "Proxy",
}

// spellings returns spellings of a name that applications treat as the same.
func spellings(name string) []string {
	all := []string{name, strings.ToLower(name), strings.ToUpper(name)}
	for _, instead := range []string{"_", ".", "~"} {
		all = append(all, strings.ReplaceAll(name, "-", instead), strings.Replace(name, "-", instead, 1), strings.ToLower(strings.ReplaceAll(name, "-", instead)))
	}
	return slices.Compact(all)
}

// writeSpoofed writes the names of all header and trailer fields that contain the spoofed value.
func writeSpoofed(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	for _, h := range []http.Header{r.Header, r.Trailer} {
		for _, name := range slices.Sorted(maps.Keys(h)) {
			if strings.Contains(strings.Join(h[name], "|"), "6.6.6.6") {
				fmt.Fprintf(w, "%s ", name)
			}
		}
	}
	fmt.Fprintf(w, "xff=%s", strings.Join(r.Header["X-Forwarded-For"], "|"))
}

// TestSpoofedHeadersAreRemoved: whatever header and spelling a client uses to name itself or its path, it does not reach the application.
func TestSpoofedHeadersAreRemoved(t *testing.T) {
	r := newRig(t, application(t, writeSpoofed), unlimitedSettings())
	for _, name := range spoofedHeaders {
		for _, spelling := range spellings(name) {
			if got := r.sendRaw("GET / HTTP/1.1\r\nHost: h\r\n" + spelling + ": 6.6.6.6\r\nConnection: close\r\n\r\n"); got.body != "xff=127.0.0.1" {
				t.Errorf("%s: the application saw %s", spelling, got.body)
			}
		}
	}
	for _, name := range []string{"X-Realm", "X-Client-Version", "User-Agent", "X-Ip", "X-HTTP-Method-Override", "Via", "X-Request-Id"} {
		if got := r.sendRaw("GET / HTTP/1.1\r\nHost: h\r\n" + name + ": 6.6.6.6\r\nConnection: close\r\n\r\n"); !strings.Contains(strings.ToLower(got.body), strings.ToLower(name)) {
			t.Errorf("%s is not forwarded: the application saw %s", name, got.body)
		}
	}
}

// TestSpoofedTrailersAreRemoved: the same holds for trailers, announced or not.
func TestSpoofedTrailersAreRemoved(t *testing.T) {
	r := newRig(t, application(t, writeSpoofed), unlimitedSettings())
	for _, name := range append([]string{"X_Forwarded_For", "x.real.ip"}, spoofedHeaders...) {
		for _, announced := range []string{"", "Trailer: " + name + "\r\n", "Trailer: X-Sum\r\n", "Trailer: X-Sum, " + name + "\r\n"} {
			got := r.sendRaw("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n" + announced +
				"\r\n3\r\nabc\r\n0\r\n" + name + ": 6.6.6.6\r\nX-Sum: 6.6.6.6\r\n\r\n")
			want := "xff=127.0.0.1"
			if strings.Contains(announced, "X-Sum") {
				want = "X-Sum " + want
			}
			if got.StatusCode != 200 || strings.TrimPrefix(got.body, "X-Sum ") != "xff=127.0.0.1" || strings.Contains(announced, "X-Sum") && got.body != want {
				t.Errorf("%s with %q: got %d, and the application saw %s, want %s", name, announced, got.StatusCode, got.body, want)
			}
		}
	}
}

// TestHeadersOfTrustedProxies: headers of a trusted proxy are forwarded, except for spellings that only clients use.
func TestHeadersOfTrustedProxies(t *testing.T) {
	s := unlimitedSettings()
	s.trusted = loopback
	r := newRig(t, application(t, writeSpoofed), s)
	for _, name := range []string{"X-Real-IP", "Fly-Client-IP", "X-Original-URL", "Forwarded", "True-Client-IP"} {
		if got := r.sendRaw("GET / HTTP/1.1\r\nHost: h\r\n" + name + ": 6.6.6.6\r\nConnection: close\r\n\r\n"); !strings.Contains(strings.ToLower(got.body), strings.ToLower(name)) {
			t.Errorf("%s is not forwarded: the application saw %s", name, got.body)
		}
		odd := strings.ReplaceAll(name, "-", "_")
		if got := r.sendRaw("GET / HTTP/1.1\r\nHost: h\r\n" + odd + ": 6.6.6.6\r\nConnection: close\r\n\r\n"); odd != name && got.body != "xff=127.0.0.1" {
			t.Errorf("%s: the application saw %s", odd, got.body)
		}
	}
}
