package forward

import (
	"testing"
	"time"
)

// Whatever reading of a request the application has, the policy for POST /login applies.
func TestEveryReadingIsLimited(t *testing.T) {
	for _, request := range [][2]string{
		{"POST", "//a@b/login?#x"}, {"POST", "//a@b/login#x"}, {"POST", "//x/login"}, {"POST", "////x:80/login"}, {"POST", `/\x/login`},
		{"POST", "/x/..%5Clogin"}, {"POST", "/login#x"}, {"POST", "/x#/../login"}, {"POST", "/login\xa0"}, {"post", "/login"}, {"Post", "//x/login"},
	} {
		s := newService(t, Options{}, false)
		for mode, lines := range map[string][]string{
			"forwarded": traefik(request[0], request[1], "203.0.113.7"), "nginx": nginx(request[0], request[1], "203.0.113.7"),
		} {
			want := 200
			if got := s.send(loopback, Path+"?mode="+mode, lines...); got.StatusCode != want {
				t.Errorf("%s, the first %s %q: got %s, want %d", mode, request[0], request[1], summary(got), want)
			}
			got := s.send(loopback, Path+"?mode="+mode, lines...)
			if refused := got.StatusCode == 429 || got.Header.Get(Status) == "429"; !refused || got.Header.Get("Retry-After") != "3600" {
				t.Errorf("%s, the second %s %q: got %s, want the refusal of the login", mode, request[0], request[1], summary(got))
			}
			s.add(time.Hour)
		}
	}
}

// Servers use different lines of a repeated header, and some read X_Tenant as X-Tenant, so a request that is counted by such a header is
// rejected.
func TestAmbiguousHeaderIsRejected(t *testing.T) {
	s := newService(t, Options{}, false)
	for _, lines := range [][]string{{"X-Tenant: a", "X-Tenant: b"}, {"X-Tenant: a", "X_Tenant: b"}, {"x_tenant: b"}, {"X.Tenant: b"}} {
		expect(t, s.send(loopback, Path, traefik("GET", "/", "203.0.113.7", lines...)...), "400")
		expect(t, s.send(loopback, Path+"?mode=nginx", nginx("GET", "/", "203.0.113.7", lines...)...), "403 X-Slidegate-Status: 400")
	}
	if got := s.send(loopback, Path, traefik("GET", "/", "203.0.113.7", "X-Other: a", "X-Other: b", "X_Other: c")...); got.StatusCode != 200 {
		t.Errorf("headers that no policy uses: got %s, want 200", summary(got))
	}
}
