package gate

import (
	"net/http/httptest"
	"testing"
)

// TestSpellingsOfPaths: a path that can be read in two ways faces a policy if either of them fits, so that nobody gets around
// a limit by percent-encoding.
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
		{"/users/{id}", "/users/1%2Fx", true}, // for an application that keeps it in the name
		{"/users/{id}/x", "/users/1%2Fx", true},
		{"/users/{id}", "/users/1/x", false},
		{"/login", "/log%2Fin", false},
	} {
		mux, err := newMatch(test.match)
		if err != nil {
			t.Fatal(err)
		}
		p := &policy{mux: mux}
		if got := p.matches(httptest.NewRequest("GET", test.target, nil)); got != test.want {
			t.Errorf("%s for %s: %v", test.match, test.target, got)
		}
	}
}

func TestSpellingsOfHosts(t *testing.T) {
	for written, want := range map[string]string{
		"shop.example": "shop.example", "SHOP.example": "shop.example", "shop.example.": "shop.example", "Shop.Example.:8080": "shop.example:8080",
		"[2001:DB8::1]": "[2001:db8::1]", "[2001:DB8::1]:80": "[2001:db8::1]:80", "": "",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = written
		if got := plainHost(r).Host; got != want || r.Host != written {
			t.Errorf("%q is seen as %q, not %q; the request itself has %q", written, got, want, r.Host)
		}
	}
}
