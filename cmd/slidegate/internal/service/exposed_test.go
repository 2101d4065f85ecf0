package service_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
)

const someToken = "0123456789abcdef"

// TestOpenListenersAreWarnedOf: there is one warning per listener that other machines can reach and that requires no token.
func TestOpenListenersAreWarnedOf(t *testing.T) {
	a := newAuthority(t)
	for name, test := range map[string]struct {
		change func(*service.Options)
		want   []string
	}{
		"loopback":  {nil, nil},
		"localhost": {func(o *service.Options) { o.HTTP, o.RESP = "localhost:0", "[::1]:0" }, nil},
		"all":       {func(o *service.Options) { o.HTTP, o.GRPC, o.RESP = "0.0.0.0:0", ":0", "[::]:0" }, []string{"http", "grpc", "resp"}},
		"one":       {func(o *service.Options) { o.RESP = "0.0.0.0:0" }, []string{"resp"}},
		"tokens": {func(o *service.Options) {
			o.HTTP, o.GRPC, o.RESP, o.Tokens = "0.0.0.0:0", "0.0.0.0:0", "0.0.0.0:0", []string{someToken}
		}, nil},
		"certificates": {func(o *service.Options) {
			o.HTTP, o.GRPC, o.RESP, o.TLS = "0.0.0.0:0", "0.0.0.0:0", "0.0.0.0:0", a.server()
			o.TLS.ClientCA = a.path("ca.pem")
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			log := start(t, plain, test.change).Log.String()
			if got := strings.Count(log, "requires no token"); got != len(test.want) {
				t.Errorf("got %d warnings, want %d:\n%s", got, len(test.want), log)
			}
			for _, listener := range test.want {
				if !strings.Contains(log, "listener="+listener) {
					t.Errorf("got no warning about %s:\n%s", listener, log)
				}
			}
		})
	}
}

// sendAs sends a request to a listener with a given Host.
func (s *started) sendAs(t *testing.T, listener, host, method, path, body string, headers ...string) reply {
	t.Helper()
	_, port, _ := net.SplitHostPort(s.Address(listener))
	r, err := http.NewRequest(method, "http://127.0.0.1:"+port+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", "http://"+host)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{got.StatusCode, got.Header, string(text)}
}

// reboundRequests are requests that a web page could make a browser on this machine send, if its own name pointed here.
var reboundRequests = []struct{ listener, method, path, body string }{
	{"http", "POST", "/v1/allow", question}, {"http", "POST", "/v1/peek", question}, {"http", "POST", "/v1/refund", question},
	{"http", "POST", "/v1/reserve", question}, {"http", "GET", "/v1/openapi.json", ""}, {"http", "GET", "/", ""}, {"http", "POST", "/json", "{}"},
	{"admin", "GET", "/v1/seen", ""}, {"admin", "GET", "/v1/explain?key=me", ""}, {"admin", "GET", "/v1/state?key=me", ""}, {"admin", "POST", "/v1/reset", question},
	{"admin", "GET", "/metrics", ""}, {"admin", "GET", "/", ""},
}

// TestOtherHostsAreRejectedOnLoopback: on loopback without tokens, requests for another host are rejected.
func TestOtherHostsAreRejectedOnLoopback(t *testing.T) {
	s := start(t, roomy, func(o *service.Options) { o.AllowedHosts = []string{"Slidegate.Internal"} })
	for _, r := range reboundRequests {
		for _, host := range []string{
			"rebound.evil.example", "rebound.evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "evil.localhost.example", "0.0.0.0",
			"192.0.2.1:8080", "[2001:db8::1]:8080", "slidegate.internal.evil.example", "localhost:evil.example", "xlocalhost", "2130706433", "127.1",
		} {
			if got := s.sendAs(t, r.listener, host, r.method, r.path, r.body); got.status != http.StatusMisdirectedRequest || !strings.Contains(got.body, "--allowed-hosts") {
				t.Errorf("%s %s as %s: got %d %s, want 421 and the fix", r.method, r.path, host, got.status, got.body)
			}
		}
		for _, host := range []string{
			"localhost", "localhost:8080", "LOCALHOST", "localhost.", "127.0.0.1", "127.9.9.9:1", "[::1]:8080", "[::1]", "[::ffff:127.0.0.1]:1",
			"slidegate.internal", "SLIDEGATE.internal.:8080",
		} {
			if got := s.sendAs(t, r.listener, host, r.method, r.path, r.body); got.status == http.StatusMisdirectedRequest {
				t.Errorf("%s %s as %s: got %d %s, want an answer", r.method, r.path, host, got.status, got.body)
			}
		}
	}
}

// TestHostsOfProxies: proxies forward their clients' Host, and load balancers send their own.
func TestHostsOfProxies(t *testing.T) {
	s := start(t, roomy, nil)
	for _, path := range []string{"/healthz", "/readyz", "/v1/check", "/v1/check?mode=nginx"} {
		got := s.sendAs(t, "http", "shop.example", "GET", path, "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-For", "192.0.2.1",
			"X-Original-Method", "GET", "X-Original-URI", "/")
		if got.status != http.StatusOK {
			t.Errorf("%s as shop.example: got %d %s, want 200", path, got.status, got.body)
		}
	}
}

// TestReachableListenersAcceptAnyHost: listeners that other machines can reach, and those that require tokens, accept any name.
func TestReachableListenersAcceptAnyHost(t *testing.T) {
	open := start(t, roomy, func(o *service.Options) { o.HTTP = "0.0.0.0:0" })
	if got := open.sendAs(t, "http", "slidegate:8080", "POST", "/v1/allow", question); got.status != http.StatusOK {
		t.Errorf("a listener on all addresses: got %d %s, want 200", got.status, got.body)
	}
	secured := start(t, roomy, func(o *service.Options) { o.Tokens = []string{someToken} })
	for _, r := range reboundRequests {
		if r.path == "/" {
			continue // needs no token
		}
		if got := secured.sendAs(t, r.listener, "slidegate:8080", r.method, r.path, r.body); got.status != http.StatusUnauthorized {
			t.Errorf("%s %s without a token: got %d, want 401", r.method, r.path, got.status)
		}
		if got := secured.sendAs(t, r.listener, "slidegate:8080", r.method, r.path, r.body, "Authorization", "Bearer "+someToken); got.status == http.StatusUnauthorized || got.status == http.StatusMisdirectedRequest {
			t.Errorf("%s %s with a token: got %d, want neither 401 nor 421", r.method, r.path, got.status)
		}
	}
}

// TestHostsOfUnixSockets: no name can point to a Unix socket, and clients of one may send any Host.
func TestHostsOfUnixSockets(t *testing.T) {
	folder := t.TempDir()
	public, admin := filepath.Join(folder, "http"), filepath.Join(folder, "admin")
	start(t, roomy, func(o *service.Options) { o.HTTP, o.Admin = "unix:"+public, "unix:"+admin })
	for _, host := range []string{"localhost", "slidegate", "shop.example:8080", "unix"} {
		for socket, path := range map[string]string{public: "/v1/openapi.json", admin: "/v1/seen"} {
			transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			}}
			got, err := (&http.Client{Transport: transport}).Get("http://" + host + path)
			if err != nil {
				t.Fatal(err)
			}
			got.Body.Close()
			if got.StatusCode != http.StatusOK {
				t.Errorf("%s as %s: got %d, want 200", path, host, got.StatusCode)
			}
		}
	}
}

// forgedReservation returns a reservation that the service did not make.
func forgedReservation(key string) string {
	return `{"version":1,"id":"x","namespace":"default","charges":[{"limit":"3/1h fixed-window","key":"` + key + `","cost":0,"at":1}]}`
}

const thrice = "policies:\n  default: {limits: [3/1h fixed-window]}\n"

// TestForgedReservations: with a reservation that the service did not make, no key can be locked out and nothing can be refunded.
func TestForgedReservations(t *testing.T) {
	for name, change := range map[string]func(*service.Options){
		"plain": nil, "tokens": func(o *service.Options) { o.Tokens = []string{someToken} },
		"key": func(o *service.Options) { o.ReservationKey = []byte("a secret of some length") },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, thrice, change)
			bearer := []string{"Authorization", "Bearer " + someToken}
			for _, r := range []string{forgedReservation("bWU="), strings.Replace(forgedReservation("bWU="), `"x"`, `"x.v1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"`, 1),
				strings.Replace(forgedReservation("bWU="), `"x"`, `"x.v2.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"`, 1), `{"version":1,"id":"x","charges":[]}`} {
				got := s.send(t, "http", "POST", "/v1/settle", `{"reservation":`+r+`,"cost":9007199254740991}`, bearer...)
				if got.status != http.StatusBadRequest || !strings.Contains(got.body, "not made by this service") {
					t.Errorf("/v1/settle %s: got %d %s, want 400", r, got.status, got.body)
				}
				if got := s.send(t, "http", "POST", "/v1/cancel", `{"reservation":`+r+`}`, bearer...); got.status != http.StatusBadRequest {
					t.Errorf("/v1/cancel %s: got %d %s, want 400", r, got.status, got.body)
				}
			}
			if got := s.allow(t, "default", "me", bearer...); got != http.StatusOK {
				t.Errorf("the victim: got %d, want 200", got)
			}
			made := s.reserve(t, "me", bearer...)
			if got := s.settle(t, made, bearer...); got != http.StatusOK {
				t.Errorf("a genuine reservation: got %d, want 200", got)
			}
		})
	}
}

// reserve reserves a unit and returns the reservation as JSON.
func (s *started) reserve(t *testing.T, key string, headers ...string) string {
	t.Helper()
	got := s.send(t, "http", "POST", "/v1/reserve", `{"key":"`+key+`"}`, headers...)
	_, made, found := strings.Cut(got.body, `"reservation":`)
	if got.status != http.StatusOK || !found {
		t.Fatalf("got %d %s, want a reservation", got.status, got.body)
	}
	return strings.TrimSuffix(strings.TrimSpace(made), "}")
}

func (s *started) settle(t *testing.T, made string, headers ...string) int {
	t.Helper()
	return s.send(t, "http", "POST", "/v1/settle", `{"reservation":`+made+`,"cost":2}`, headers...).status
}

// TestReservationsSurviveRestart: reservations survive a restart if the counts do, and instances with the same key accept each other's
// reservations.
func TestReservationsSurviveRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	keep := func(o *service.Options) { o.State = path }
	before := start(t, thrice, keep)
	made := before.reserve(t, "me")
	before.Stop(t)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 { // it has the key
		t.Errorf("the state folder: got %v, %v, want one that only its owner can read", info, err)
	}
	if got := start(t, thrice, keep).settle(t, made); got != http.StatusOK {
		t.Errorf("after a restart: got %d, want 200", got)
	}
	if got := start(t, thrice, nil).settle(t, made); got != http.StatusBadRequest {
		t.Errorf("at another service: got %d, want 400", got)
	}
	same := func(o *service.Options) { o.ReservationKey = []byte("a secret of some length") }
	if got := start(t, thrice, same).settle(t, start(t, thrice, same).reserve(t, "me")); got != http.StatusOK {
		t.Errorf("at another instance: got %d, want 200", got)
	}
}
