package proxy_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/slidegate/slidegate/config"
)

// ambiguousRequests lists requests that servers read in different ways: the method, the target, and header lines.
var ambiguousRequests = []struct{ method, target, header string }{
	{"POST", "//a@b/login?#x", ""}, {"POST", "//a@b/login", ""}, {"POST", "//x/login", ""}, {"POST", "///x/login", ""}, {"POST", "//x:80/login", ""},
	{"POST", `/\x/login`, ""}, {"POST", "/%5Cx/login", ""}, {"POST", "/%5cx/login", ""}, {"POST", "http://h//x/login", ""},
	{"POST", "/login#x", ""}, {"POST", "/login?a#x", ""}, {"POST", "/login?#", ""}, {"POST", "http://h/login#x", ""},
	{"post", "/login", ""}, {"Post", "/login", ""}, {"POSt", "/login", ""},
	{"POST", "/login", "X-Api-Key: a\r\nX-Api-Key: b\r\n"}, {"POST", "/login", "X-Api-Key: \r\nx-api-key: b\r\n"},
	{"POST", "/login", "X-Plan: a\r\nX-Plan: b\r\n"}, {"POST", "/login", "X-Cost: 1\r\nX-Cost: 2\r\n"}, {"POST", "/login", "X-Cost: 1\r\nX-Cost: 1\r\n"},
}

// ambiguousPolicy applies to POST /login, and uses three headers.
func ambiguousPolicy(t *testing.T) config.Policy {
	t.Helper()
	file, err := config.Parse("test.yaml", []byte(`
policies:
  login: {match: POST /login, key: "{address} {header:X-Api-Key}", cost: "header:X-Cost", plan: "header:X-Plan", plans: {a: {limits: [3/1h]}}, limits: [3/1h]}
`))
	if err != nil {
		t.Fatal(err)
	}
	return file.Policies[0]
}

func TestAmbiguousRequestsAreRejected(t *testing.T) {
	r := newRig(t, application(t, echo), settings{policies: []config.Policy{ambiguousPolicy(t)}})
	for _, c := range ambiguousRequests {
		got := r.sendRaw(c.method + " " + c.target + " HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n" + c.header + "\r\n")
		if got.StatusCode != 400 || got.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(got.body, "--allow-ambiguous") {
			t.Errorf("%s %s %q: got %s %s, want 400 and the option", c.method, c.target, c.header, got.Status, got.body)
		}
	}
	for _, c := range []struct{ target, header string }{
		{"/login?X-Amz-Signature=a%2Fb%2Bc==&x=%23", ""}, {"/%2Fbucket/a%2Fb", ""}, {"/a//b", ""}, {"/%23", ""}, {"/a%5Cb", ""}, {"/login", "Accept: a\r\nAccept: b\r\n"},
	} {
		got := r.sendRaw("GET " + c.target + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + c.header + "\r\n")
		if want := "GET " + c.target + " host=h "; got.StatusCode != 200 || !strings.HasPrefix(got.body, want) {
			t.Errorf("%s %q: got %s %s, want it to arrive unchanged", c.target, c.header, got.Status, got.body)
		}
	}
}

// TestAmbiguousRequestsAreLimited: with the option they are forwarded, and a policy applies if any reading matches it.
func TestAmbiguousRequestsAreLimited(t *testing.T) {
	for _, c := range ambiguousRequests {
		s := settings{policies: []config.Policy{ambiguousPolicy(t)}}
		s.opts.AllowAmbiguous = true
		r := newRig(t, application(t, echo), s)
		var got []int
		for range 4 { // a cost of 2 is refused earlier
			got = append(got, r.sendRaw(c.method+" "+c.target+" HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n"+c.header+"\r\n").StatusCode)
		}
		want := []int{200, 200, 200, 429}
		if strings.HasSuffix(c.header, "X-Cost: 2\r\n") {
			want = []int{200, 429, 429, 429}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s %s %q: got %v, want %v", c.method, c.target, c.header, got, want)
		}
		r.stop()
	}
}

// TestAmbiguousTargetsOfHTTP2: the path of HTTP/2 is checked too.
func TestAmbiguousTargetsOfHTTP2(t *testing.T) {
	s := settings{policies: []config.Policy{ambiguousPolicy(t)}}
	secure, believe := certificate(t)
	s.serve.secure = secure
	secure.NextProtos = []string{"h2"}
	r := newRig(t, application(t, echo), s)
	dialer := &tls.Dialer{Config: believe}
	believe.NextProtos = []string{"h2"}
	for path, want := range map[string]string{"//a@b/login?#x": "400", "/login?#x": "400", "/login#x": "400", "/login": "200"} {
		conn, err := dialer.DialContext(t.Context(), "tcp", r.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := statusOfHTTP2(t, conn, path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
		conn.Close()
	}
}

// statusOfHTTP2 sends one POST with exactly this path, which clients would change, and returns the status.
func statusOfHTTP2(t *testing.T, conn net.Conn, path string) string {
	t.Helper()
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "example.com"}, {":path", path}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	_, _ = io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = framer.WriteSettings()
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndStream: true, EndHeaders: true})
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if headers, ok := frame.(*http2.MetaHeadersFrame); ok {
			return headers.PseudoValue("status")
		}
	}
}

// TestOddHeaderNames: headers that an application could take for others do not reach it, nor the gate.
func TestOddHeaderNames(t *testing.T) {
	names := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Join(slices.Sorted(maps.Keys(r.Header)), " "))
	}
	odd := "X_Api_Key: real\r\nX.Api.Key: real\r\nX-Api_Key: real\r\nx~plan: a\r\nX_Cost: 1\r\napi_key: 1\r\nProxy: http://evil\r\n"
	for allowed, want := range map[bool]string{
		false: "Content-Length X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto",
		true:  "Api_key Content-Length X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto",
	} {
		s := settings{policies: []config.Policy{ambiguousPolicy(t)}}
		s.opts.AllowAmbiguous = allowed
		r := newRig(t, application(t, names), s)
		got := r.sendRaw("POST /login HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n" + odd + "\r\n")
		if got.StatusCode != 200 || got.body != want {
			t.Errorf("allowed %t: got %s %q, want %q", allowed, got.Status, got.body, want)
		}
	}
}
