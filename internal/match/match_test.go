package match

import (
	"net/http/httptest"
	"testing"
)

// The host of CONNECT is compared without the port too, although ServeMux does not remove it.
func TestConnect(t *testing.T) {
	m, err := New("api.example/x")
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{"api.example": true, "api.example:443": true, "API.example.:443": true, "www.example:443": false} {
		r := httptest.NewRequest("CONNECT", "/x", nil)
		r.Host = host
		if got := m.Match(r); got != want || r.Host != host {
			t.Errorf("%q: got match %t, want %t; the request's host is then %q", host, got, want, r.Host)
		}
	}
}

// A pattern matches its own sample, whatever it contains.
func TestMatcherSample(t *testing.T) {
	for _, pattern := range []string{
		"", "/", "/api/", "POST /login", "GET  api.example/", "API.Example./x", "/users/{id}", "/users/{id}/{$}", "/files/{rest...}",
		"DELETE api.example/users/{id}/posts/{post}", "/a%20b/", "CONNECT /x", "[::1]/",
	} {
		m, err := New(pattern)
		if err != nil {
			t.Errorf("New(%q) returned the error %v, want none", pattern, err)
			continue
		}
		if r := m.Samples()[0]; !m.Match(r) {
			t.Errorf("%q does not match %s %s%s, want a sample that it matches", pattern, r.Method, r.Host, r.URL)
		}
	}
	if _, err := New("GET /{"); err == nil {
		t.Error("GET /{ is accepted as a pattern, want an error")
	}
}
