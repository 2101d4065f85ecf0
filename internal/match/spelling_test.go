package match

import (
	"net/http"
	"net/http/httptest"
	"net/url"
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
		{"/login", "/x/..%5clogin", true},
		{"/login", "/x/..%5Clogin", true}, // which Go treats as the usual spelling
		{"/login", "/x%5C..%5Clogin", true},
		{"/login", "//x/login", true}, // as URL parsers read it: the host x
		{"/login", "//a@b/login", true},
		{"/login", "//a@b/login?#x", true},
		{"/login", "//x:80/login", true},
		{"/login", "///x/login", true},
		{"/login", "////x/login", true},
		{"/login", "//x/./login", true},
		{"/login", "//x/y/../login", true},
		{"/login", "//x/%6cogin", true},
		{"/login", "//x%2Flogin", true},
		{"/login", "/%2Fx/login", true},
		{"/login", `/\x/login`, true},
		{"/login", `/\/x/login`, true},
		{"/login", `/\x\login`, true},
		{"/login", "/%5Cx/login", true},
		{"/login", "/%5cx/login", true},
		{"/login", "/.//x/login", true}, // behind a proxy that resolves the dot
		{"/login", "/y/..//x/login", true},
		{"/login", "//x/y/login", false},
		{"/login", "/y//x/login", false},
		{"/{$}", "//x", true},
		{"/users/{id}", "//x/users/1%2Fx", true},
		{"/users/{id}/x", "//x/users/1%2Fx", true},
		{"/login", "/login#x", true}, // as most servers read it
		{"/login", "/login#?x", true},
		{"/login", "/x#/../login", true}, // as Go does
		{"/login", "//a@b/login#x", true},
		{"/users/{id}", "/users/1%2Fx#y", true},
		{"/login", "/login%23x", false},
		{"/login", "/login\xa0", true}, // Python removes it
		{"/login", "/login\x85", true},
		{"/login", "/login\xa0\xa0#x", true},
		{"/login", "/login\xa0x", false},
	} {
		m, err := New(test.match)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.ParseRequestURI(test.target) // as a server does
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Match(&http.Request{Method: "GET", URL: u}); got != test.want {
			t.Errorf("%s matches %s: got %v, want %v", test.match, test.target, got, test.want)
		}
	}
}

// Some frameworks accept methods in small letters, so a policy for POST applies to post too.
func TestSpellingsOfMethods(t *testing.T) {
	m, err := New("POST shop.example/login")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		method, host, target string
		want                 bool
	}{
		{"post", "shop.example", "/login", true}, {"Post", "SHOP.example", "/login", true}, {"POSt", "shop.example", "//x/login", true},
		{"post", "x", "//shop.example/login", true}, {"POST", "x", "//a@SHOP.example.:80/login", true}, {"POST", "x", "//y/login", false},
		{"put", "shop.example", "/login", false}, {"get", "shop.example", "/login", false},
	} {
		u, err := url.ParseRequestURI(test.target)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Method: test.method, Host: test.host, URL: u}
		if got := m.Match(r); got != test.want || r.Method != test.method || r.Host != test.host {
			t.Errorf("%s %s%s: got match %v, want %v, and the request unchanged: %s %s", test.method, test.host, test.target, got, test.want, r.Method, r.Host)
		}
	}
}

// All spellings of a path that can reach the same page are one key.
func TestCanonicalPath(t *testing.T) {
	for target, want := range map[string]string{
		"/login": "/login", "/login/": "/login", "/": "/", "//": "/", "/LOGIN": "/login", "/%4Cogin//": "/login", "/É/\xffA": "/É/\xffa", "/%FFA": "/\xffa", "//login": "/login", "///login": "/login", "//login/": "/login", "/a//b": "/a/b", "/%6cogin": "/login", "/a%2Fb": "/a/b", "/x/../login": "/login",
		"//a@b/login": "/login", "//x:80/login?#x": "/login", "////x/login": "/login", `/\x/login`: "/login", "/%5Cx/login": "/login",
		"/x%5C..%5Clogin": "/login", "/login#x": "/login", "/login\xa0": "/login", "/y//x/login": "/y/x/login", "*": "/*",
	} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := CanonicalPath(u); got != want {
			t.Errorf("CanonicalPath(%q): got %q, want %q", target, got, want)
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
		m, err := New("shop.example/")
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
