package config

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/store"
)

// The content of a file reaches the middleware; a test of the service checks that both decide alike.
func TestHTTP(t *testing.T) {
	file, err := Parse("test.yaml", []byte(`
failure: closed
store_timeout: 30ms
trusted_proxies: [203.0.113.0/24]
policies:
  a: {match: /a/, key: "{address} {user}", cost: 3, limits: [5/1m], failure: local, shadow: true, allow: [10.0.0.1], block: ["key:192.0.2.7 x"]}
  b: {limits: [1/1m], failure: open, overrides: [{key: k, unlimited: true}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := HTTP(file)
	if err != nil {
		t.Fatal(err)
	}
	if opts.Failure != store.FailClosed || opts.Timeout != 30*time.Millisecond || len(opts.Policies) != 2 {
		t.Fatalf("got options %+v", opts)
	}
	r := httptest.NewRequest("GET", "/a/", nil)
	r = r.WithContext(WithUser(r.Context(), "ann"))
	r.RemoteAddr = "203.0.113.9:1"
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	a, b := opts.Policies[0], opts.Policies[1]
	if got, _ := a.Key.Of(r); got != "192.0.2.1 ann" {
		t.Errorf("key of a: got %q, want the client behind the proxy and the user", got)
	}
	if got := a.Cost(r); got != 3 || b.Cost != nil {
		t.Errorf("cost of a: got %d, want 3; b has a cost: %t", got, b.Cost != nil)
	}
	if !slices.Equal(a.Matches, []string{"/a/"}) || a.Failure != store.FailLocal || !a.Shadow || len(a.Allow.Addresses) != 1 || len(a.Block.Keys) != 1 {
		t.Errorf("a: got %+v, want match /a/, mode local, in the shadow, and one allowed prefix and refused key", a)
	}
	if b.Failure != store.FailOpen || len(b.Overrides) != 1 || b.Name != "b" {
		t.Errorf("b: got %+v", b)
	}
}

func TestWrongHTTP(t *testing.T) {
	for text, want := range map[string]string{
		"policies: {a: {key: \"{status}\", limits: [1/1m]}}":   `config: policy "a": key: {status} is known in recorded traffic only`,
		"policies: {a: {key: \"{field:id}\", limits: [1/1m]}}": `config: policy "a": key: {field:id} is known in recorded traffic only`,
		"policies: {a: {cost: bytes, limits: [1/1m]}}":         `config: policy "a": cost: bytes is known in recorded traffic only`,
		"policies: {a: {cost: \"field:n\", limits: [1/1m]}}":   `config: policy "a": cost: field:n is known in recorded traffic only`,
	} {
		file, err := Parse("test.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := HTTP(file); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
