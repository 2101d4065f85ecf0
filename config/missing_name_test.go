package config

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// keyIn returns the key of a request under a file with one policy.
func keyIn(t *testing.T, key string, r *http.Request) string {
	t.Helper()
	file, err := Parse("f.yaml", []byte("policies:\n  api:\n    key: "+key+"\n    limits: [3/1m]\n"))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := HTTP(file)
	if err != nil {
		t.Fatal(err)
	}
	made, err := opts.Policies[0].Key.Of(r)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// requestFrom returns a request from an address with headers, each written Name=value.
func requestFrom(address string, headers ...string) *http.Request {
	r := httptest.NewRequest("GET", "/a", nil)
	r.RemoteAddr = address + ":1234"
	for _, header := range headers {
		name, value, _ := strings.Cut(header, "=")
		r.Header.Add(name, value)
	}
	return r
}

// Clients that omit a header do not share a key: their address replaces it.
func TestMissingNameIsAddress(t *testing.T) {
	for _, test := range []struct {
		key     string
		headers []string
		want    string
	}{
		{"header:X-Key", []string{"X-Key=alice"}, "alice"},
		{"header:X-Key", nil, "address:203.0.113.7"},
		{"header:X-Key", []string{"X-Key="}, "address:203.0.113.7"},
		{"header:X-Key", []string{"X-Key=203.0.113.7"}, "203.0.113.7"},
		{"header:X-Key", []string{"X-Key=address:203.0.113.7"}, "%address:203.0.113.7"},
		{"header:X-Key", []string{"X-Key=%address:203.0.113.7"}, "%%address:203.0.113.7"},
		{"user", nil, "address:203.0.113.7"},
		{"key", nil, "address:203.0.113.7"},
		{`"t/{header:X-Key}"`, nil, "t/address:203.0.113.7"},
		{`"t/{header:X-Key}"`, []string{"X-Key=address:1"}, "t/%address:1"},
		{`"{user} {path}"`, nil, "address:203.0.113.7 /a"},
		{`"{header:X-Key} {path}"`, []string{"X-Key=address:203.0.113.7"}, "%61ddress:203.0.113.7 /a"},
		{`"{header:X-Key}:{path}"`, nil, "address%3A203.0.113.7:/a"},
		{`"{address} {header:X-Key}"`, nil, "203.0.113.7 -"}, // it contains the address already
		{"path", nil, "/a"},
		{"query", nil, ""},
		{"[header:X-Key, header:X-Tenant]", []string{"X-Key=alice", "X-Tenant=acme"}, "alice"},
		{"[header:X-Key, header:X-Tenant]", []string{"X-Tenant=acme"}, "header:X-Tenant:acme"},
		{"[header:X-Key, header:X-Tenant]", []string{"X-Key=header:X-Tenant:acme"}, "%header:X-Tenant:acme"},
		{"[header:X-Key, header:X-Tenant]", nil, "address:203.0.113.7"},
		{"[header:X-Key, address]", nil, "address:203.0.113.7"},
		{"[header:X-Key, address]", []string{"X-Key=alice"}, "alice"},
		{"[header:X-Key]", nil, "address:203.0.113.7"},
		{`[user, "{header:X-Key} {path}", "{address} {path}"]`, []string{"X-Key=a b"}, "header:X-Key,path:a%20b /a"},
		{`[user, "{header:X-Key} {path}", "{address} {path}"]`, nil, "address,path:203.0.113.7 /a"},
	} {
		if got := keyIn(t, test.key, requestFrom("203.0.113.7", test.headers...)); got != test.want {
			t.Errorf("key %s of %q: got %q, want %q", test.key, test.headers, got, test.want)
		}
	}
	if a, b := keyIn(t, "header:X-Key", requestFrom("203.0.113.7")), keyIn(t, "header:X-Key", requestFrom("203.0.113.8")); a == b {
		t.Errorf("two clients without the header share the key %q", a)
	}
}
