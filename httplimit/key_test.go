package httplimit

import (
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate"
)

// request returns a request with header fields given as "Name: value".
func request(fields ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func TestKeys(t *testing.T) {
	const secret = "hunter2"
	const sum = "sha256:f52fbd32b2b3b86ff88ef6c490628285" // the first half of sha256("hunter2")
	for _, test := range []struct {
		name string
		key  Key
		r    *http.Request
		want string
	}{
		{"address", ByAddress(nil), request(), "192.0.2.1"},
		{"address against a lie", ByAddress(nil), request("X-Forwarded-For: 203.0.113.9"), "192.0.2.1"},
		{"header", ByHeader("x-user"), request("X-User: ann"), "ann"},
		{"two lines of a header", ByHeader("x-user"), request("X-User: ann", "X-User: bob"), ""},
		{"two lines of an API key", ByAPIKey("x-user"), request("X-User: ann", "X-User: bob"), ""},
		{"two bearers", ByBearerToken(), request("Authorization: Bearer a", "Authorization: Bearer b"), ""},
		{"two cookies", ByCookie("session"), request("Cookie: session=a; session=b"), ""},
		{"two lines of cookies", ByCookie("session"), request("Cookie: session=a", "Cookie: session=b"), ""},
		{"no header", ByHeader("X-User"), request(), ""},
		{"cookie", ByCookie("session"), request("Cookie: session=" + secret), sum},
		{"no cookie", ByCookie("session"), request("Cookie: other=1"), ""},
		{"bearer", ByBearerToken(), request("Authorization: Bearer " + secret), sum},
		{"bearer in other letters", ByBearerToken(), request("Authorization: bearer  " + secret), sum},
		{"basic", ByBearerToken(), request("Authorization: Basic " + secret), ""},
		{"no bearer", ByBearerToken(), request(), ""},
		{"a scheme without a token", ByBearerToken(), request("Authorization: Bearer"), ""},
		{"a scheme and a space", ByBearerToken(), request("Authorization: Bearer "), ""},
		{"a scheme that goes on", ByBearerToken(), request("Authorization: Bearerx " + secret), ""},
		{"an empty cookie", ByCookie("session"), request("Cookie: session="), ""},
		{"an empty API key", ByAPIKey("X-Api-Key"), request("X-Api-Key: "), ""},
		{"each without any", AllOf(ByHeader("A"), ByHeader("B")), request(), "0:0:"},
		{"API key", ByAPIKey("X-Api-Key"), request("X-Api-Key: " + secret), sum},
		{"no API key", ByAPIKey("X-Api-Key"), request(), ""},
		{"path", ByPath(), httptest.NewRequest("GET", "/Docs/%61//x%2F../B/?q=1", nil), "/docs/a/b"},
		{"path of the root", ByPath(), request(), "/"},
		{"by handler", ByHandler(), request("X-User: ann"), ""},
		{"global", Global(), request("X-User: ann"), ""},
		{"each", AllOf(ByHeader("A"), ByHeader("B")), request("A: x", "B: yz"), "1:x2:yz"},
		{"first of, the first", FirstOf(ByHeader("A"), ByHeader("B")), request("A: x", "B: y"), "header:A:x"},
		{"first of, the second", FirstOf(ByHeader("A"), ByHeader("B")), request("B: x"), "header:B:x"},
		{"first of none", FirstOf(ByHeader("A"), ByHeader("B")), request(), ""},
	} {
		if got, err := test.key.Of(test.r); err != nil || got != test.want {
			t.Errorf("%s: got key %q, want %q", test.name, got, test.want)
		}
	}
}

func TestPathValue(t *testing.T) {
	mux := http.NewServeMux()
	var got string
	mux.HandleFunc("/users/{id}", func(_ http.ResponseWriter, r *http.Request) { got, _ = ByPathValue("id").Of(r) })
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/users/42", nil))
	if got != "42" {
		t.Errorf("got key %q, want 42", got)
	}
}

// Any input of clients makes a key, the same each time, and without secrets in it.
func FuzzKeys(f *testing.F) {
	f.Add("192.0.2.1:1234", "Bearer hunter2", "a=b; session=x", "ann", "/users/42")
	f.Add("@", "bearer ", "session=\"\\\"", "\x00\xff:", "/%zz/")
	f.Add("[::1%eth0]:5", "Bearer", ";;=", "", "")
	f.Add("", "BEARER \u00a0x", "session", strings.Repeat("k", 1<<12), "//")
	keys := map[string]Key{
		"address": ByAddress(nil), "header": ByHeader("X-User"), "cookie": ByCookie("session"), "bearer": ByBearerToken(),
		"api key": ByAPIKey("X-User"), "path": ByPathValue("id"), "whole path": ByPath(), "global": Global(),
		"each": AllOf(ByHeader("X-User"), ByAddress(nil), ByCookie("session")), "first": FirstOf(ByBearerToken(), ByHeader("X-User"), ByAddress(nil)),
	}
	f.Fuzz(func(t *testing.T, peer, authorization, cookie, user, id string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = peer
		r.Header = http.Header{"Authorization": {authorization}, "Cookie": {cookie}, "X-User": {user}}
		r.SetPathValue("id", id)
		for name, key := range keys {
			got, _ := key.Of(r)
			if again, _ := key.Of(r); again != got {
				t.Errorf("%s: got %q and then %q, want the same key twice", name, got, again)
			}
			switch name {
			case "bearer", "cookie", "api key":
				digits, marked := strings.CutPrefix(got, "sha256:")
				if _, err := hex.DecodeString(digits); got != "" && (err != nil || !marked || len(digits) != 32) {
					t.Errorf("%s: got key %q, want sha256: and 32 hexadecimal digits, or nothing", name, got)
				}
			case "header":
				if got != user {
					t.Errorf("%s: got key %q, want %q", name, got, user)
				}
			}
		}
		if got, _ := keys["api key"].Of(r); (got == "") != (user == "") {
			t.Errorf("%q: got key %q, want one exactly if the header is not empty", user, got)
		}
	})
}

// Different values always make different keys.
func TestEachIsUnambiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.StringMatching(`[0-9:a]{0,4}`), 4, 4)
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		key := func(v []string) string {
			var keys []Key
			for _, one := range v {
				keys = append(keys, KeyFunc(func(*http.Request) (string, error) { return one, nil }))
			}
			combined, _ := AllOf(keys...).Of(nil)
			return combined
		}
		if same := strings.Join(a, "\x00") == strings.Join(b, "\x00"); same != (key(a) == key(b)) {
			t.Fatalf("%q and %q give %q and %q, want equal keys: %v", a, b, key(a), key(b), same)
		}
	})
}

// The zero Key panics where it is given, and not at the first request.
func TestZeroKeys(t *testing.T) {
	some := Global()
	for want, call := range map[string]func(){
		"AllOf: key 2 of 2 is the zero Key":   func() { AllOf(some, Key{}) },
		"AllOf: key 1 of 1 is the zero Key":   func() { AllOf(Key{}) },
		"FirstOf: key 1 of 2 is the zero Key": func() { FirstOf(KeyFunc(nil), some) },
		"Limit: key 1 of 1 is the zero Key":   func() { Limit(1, time.Minute, Key{}) },
		"Limit: key 2 of 2 is the zero Key":   func() { Limit(1, time.Minute, some, Key{}) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "httplimit: "+want) {
					t.Errorf("got panic %q, want %q", text, want)
				}
			}()
			call()
		}()
	}
}

// Clients without the header that they are counted by do not share a key, and none can use another's address as its name.
func TestEmptyKeyIsAddress(t *testing.T) {
	one := []slidegate.Limit{slidegate.PerMinute(1)}
	for name, key := range map[string]Key{
		"header": ByHeader("X-User"), "API key": ByAPIKey("X-User"), "cookie": ByCookie("user"), "bearer": ByBearerToken(), "path": ByPathValue("id"),
		"first of": FirstOf(ByHeader("X-User"), ByCookie("user")),
	} {
		p := newPlay(t, Options{Policies: []Policy{{Name: "a", Key: key, Limits: one}}}, nil)
		for i, want := range []int{200, 429} {
			for _, address := range []string{"203.0.113.7:1", "203.0.113.8:1", "[2001:db8::1]:1"} {
				if got := p.serveFrom(address, ""); got != want {
					t.Errorf("%s: request %d from %s without a name: got %d, want %d", name, i+1, address, got, want)
				}
			}
		}
	}
	p := newPlay(t, Options{Policies: []Policy{{Name: "a", Key: ByHeader("X-User"), Limits: one}}}, nil)
	for _, user := range []string{"203.0.113.7", "address:203.0.113.7", "%address:203.0.113.7", "%%address:203.0.113.7", ""} {
		if got := p.serveFrom("203.0.113.7:1", user); got != 200 {
			t.Errorf("the first request of %q: got %d, want 200: no other client has this key", user, got)
		}
	}
	for name, policy := range map[string]Policy{"global": {Key: Global()}, "shared": {Key: ByHeader("X-User"), ShareEmptyKey: true}} {
		policy.Name, policy.Limits = "a", one
		p := newPlay(t, Options{Policies: []Policy{policy}}, nil)
		if first, second := p.serveFrom("203.0.113.7:1", ""), p.serveFrom("203.0.113.8:1", ""); first != 200 || second != 429 {
			t.Errorf("%s: two clients: got %d and %d, want one key for both", name, first, second)
		}
	}
}

// serveFrom serves a request from an address, with a name unless it is empty, and returns the status.
func (p *play) serveFrom(address, user string) int {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = address
	if user != "" {
		r.Header.Set("X-User", user)
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	return w.Code
}
