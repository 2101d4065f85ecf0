package httplimit

import (
	"net/http/httptest"
	"testing"
)

// A path with two readings is subject to a policy if either of them matches, so that percent-encoding is not a way around a
// limit.
func TestSpellingsOfPaths(t *testing.T) {
	for _, test := range []struct {
		match, target string
		want          bool
	}{
		{"/login", "/login", true},
		{"/login", "/%6cogin", true},
		{"/login", "/x/%2e%2e/login", true},
		{"/login", "/x%2F..%2Flogin", true},
		{"/users/{id}", "/users/1", true},
		{"/users/{id}", "/users/1%2Fx", true}, // for an application that keeps it in the segment
		{"/users/{id}/x", "/users/1%2Fx", true},
		{"/users/{id}", "/users/1/x", false},
		{"/login", "/log%2Fin", false},
		{"/login", `/x\..\login`, true}, // as Node and browsers read URLs
		{"/login", `/.\login`, true},
		{"/login", `/x%2f..\login`, true},
		{"/login", `/x\login`, false},
	} {
		m, err := NewMatcher(test.match)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Match(httptest.NewRequest("GET", test.target, nil)); got != test.want {
			t.Errorf("%s matches %s: got %v, want %v", test.match, test.target, got, test.want)
		}
	}
}

func TestSpellingsOfHosts(t *testing.T) {
	for written, want := range map[string]string{
		"shop.example": "shop.example", "SHOP.example": "shop.example", "shop.example.": "shop.example", "Shop.Example.:8080": "shop.example",
		"[2001:DB8::1]": "[2001:db8::1]", "[2001:DB8::1]:80": "[2001:db8::1]", "": "",
		"shop.example:": "shop.example", "shop.example:80:81": "shop.example", "shop.example..": "shop.example", ".": "", ":80": "", "[::1": "[::1",
	} {
		if got := CanonicalHost(written); got != want {
			t.Errorf("CanonicalHost(%q): got %q, want %q", written, got, want)
		}
		if want != "shop.example" {
			continue
		}
		m, err := NewMatcher("shop.example/")
		if err != nil {
			t.Fatal(err)
		}
		for _, method := range []string{"GET", "CONNECT"} {
			r := httptest.NewRequest(method, "http://x/", nil)
			if r.Host = written; !m.Match(r) {
				t.Errorf("shop.example/ does not match %s of the host %s, want a match", method, written)
			}
		}
	}
}
