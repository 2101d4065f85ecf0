package config

import (
	"fmt"
	"math/rand/v2"
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

// No client can choose a name that makes the key of another.
func TestNamesAreNotAddresses(t *testing.T) {
	templates := []string{"header:A", "t{header:A}", "{header:A} {path}", "{header:A}:{header:B}"}
	lists := [][]string{{"header:A", "header:B"}, {"header:A", "user", "{header:B} {path}"}, {"{header:A} {header:B}", "header:B"}, {"header:A", "field:x", "field:x%3Ay"}}
	var all []Template
	for _, text := range templates {
		all = append(all, mustTemplate(t, text))
	}
	for _, texts := range lists {
		var parts []Template
		for _, text := range texts {
			parts = append(parts, mustTemplate(t, text))
		}
		made, err := FirstOf(parts...)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, made)
	}
	pieces := []string{"", "%", "a", "address:", "1.2.3.4", "header:B:", "user:", "header:B,path:", "field:x:", "y:", "field:x%253Ay:", " ", "-", "%61", "ddress:"}
	random := rand.New(rand.NewPCG(1, 2))
	for _, template := range all {
		seen := map[string]string{}
		for range 20_000 {
			values := make([][]byte, len(template.Fields()))
			for i := range values {
				if value := pieces[random.IntN(len(pieces))] + pieces[random.IntN(len(pieces))] + pieces[random.IntN(len(pieces))]; value != "" {
					values[i] = []byte(value)
				}
			}
			address := []string{"1.2.3.4", "a"}[random.IntN(2)]
			who := identity(template, values, address)
			key := string(template.AppendKeyOr(nil, values, []byte(address)))
			if other, taken := seen[key]; taken && other != who {
				t.Fatalf("%v: got key %q for both %s and %s", template, key, other, who)
			}
			seen[key] = who
		}
	}
}

// identity returns the parts that a key must distinguish: the alternative that applies, its values, and the address if it replaces a name.
func identity(t Template, values [][]byte, address string) string {
	alternative, start, ok := t.choose(values)
	if !ok && len(t.others) > 0 {
		return "address " + address
	}
	fields := t.Alternatives()[alternative].fields
	text := fmt.Sprint(alternative)
	for i := range fields {
		if value := values[start+i]; len(value) == 0 && fields[i].Kind.namesClient() {
			text += " address " + address
		} else {
			text += fmt.Sprintf(" %q", value)
		}
	}
	return text
}

func TestFirstOfRejects(t *testing.T) {
	address, user, both := mustTemplate(t, "address"), mustTemplate(t, "user"), mustTemplate(t, "{user} {path}")
	for _, test := range []struct {
		templates []Template
		want      string
	}{
		{nil, "at least one"},
		{[]Template{address, user}, "{user} is never reached, since {address} before it"},
		{[]Template{user, both}, "{user} {path} is never reached"},
		{[]Template{user, user}, "never reached"},
		{[]Template{{}}, "a single template"},
	} {
		if _, err := FirstOf(test.templates...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("FirstOf(%v) returned %v, want an error with %q", test.templates, err, test.want)
		}
	}
	if _, err := FirstOf(mustTemplate(t, "header:A"), both, address); err != nil {
		t.Error(err)
	}
}
