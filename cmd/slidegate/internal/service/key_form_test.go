package service_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// check sends a request through forward-auth, with headers separated by semicolons, and returns the status.
func (s *started) check(t *testing.T, path, address, headers string) int {
	t.Helper()
	all := []string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", path, "X-Forwarded-For", address}
	for _, header := range strings.Split(headers, "; ") {
		if name, value, ok := strings.Cut(header, ": "); ok {
			all = append(all, name, value)
		}
	}
	return s.send(t, "http", "GET", "/v1/check", "", all...).status
}

// keyForms are keys of policies, what an operator writes, and what that does: the client with these headers is refused, or the text is
// an error that shows how a key is written.
var keyForms = []struct {
	name, key, text string
	headers         string // of the client, whose address is 203.0.113.7
	err             string
}{
	{"address", `address`, "203.0.113.7", "", ""},
	{"mapped address", `address`, "::ffff:203.0.113.7", "", "write 203.0.113.7"},
	{"prefix", `address`, "203.0.113.0/24", "", ""},
	{"prefix with other bits", `address`, "203.0.113.7/24", "", "write the prefix 203.0.113.0/24"},
	{"a name for an address", `address`, "alice", "", "must be an address"},
	{"header", `header:X-User`, "alice", "X-User: alice", ""},
	{"header, address of a client without one", `header:X-User`, "address:203.0.113.7", "", ""},
	{"header, prefix of a client without one", `header:X-User`, "address:203.0.113.0/24", "", ""},
	{"header in a text", `"tenant/{header:X-Tenant}"`, "tenant/acme", "X-Tenant: acme", ""},
	{"header in a text, only its value", `"tenant/{header:X-Tenant}"`, "acme", "X-Tenant: acme", `such as \"tenant/alice\"`},
	{"header in a text, without one", `"tenant/{header:X-Tenant}"`, "tenant/address:203.0.113.7", "", ""},
	{"first of, the first", `["{header:X-Api-Key}", "{header:X-User}"]`, "alice", "X-Api-Key: alice", ""},
	{"first of, the second", `["{header:X-Api-Key}", "{header:X-User}"]`, "header:X-User:alice", "X-User: alice", ""},
	{"first of, prefix", `["{header:X-Api-Key}", "{address}"]`, "address:203.0.113.0/24", "", ""},
	{"first of, address of a client without any", `["{header:X-Api-Key}", "{header:X-User}"]`, "address:203.0.113.7", "", ""},
	{"first of, wrong address", `["{header:X-Api-Key}", "{header:X-User}"]`, "address:alice", "", "must be an address"},
	{"two fields, one", `"{header:X-User} {path}"`, "alice", "X-User: alice", `such as \"alice /login\"`},
	{"two fields", `"{header:X-User} {path}"`, "alice /x", "X-User: alice", ""},
	{"two fields, encoded", `"{header:X-User} {path}"`, "a%20b /x", "X-User: a b", ""},
	{"two fields, an address", `"{address} {path}"`, "203.0.113.7 /x", "", ""},
	{"two fields, a prefix", `"{address} {path}"`, "203.0.113.0/24 /x", "", "in place of {address}"},
	{"two fields, without a name", `"{header:X-User} {path}"`, "address:203.0.113.7 /x", "", ""},
	{"header, bytes", `header:X-User`, `"J\xf6rg"`, "X-User: J\xf6rg", ""},
	{"first of, bytes", `["{header:X-Api-Key}", "{header:X-User}"]`, `"header:X-User:J\xf6rg"`, "X-User: J\xf6rg", ""},
	{"two fields, another path", `"{header:X-User} {path}"`, "alice //./x", "X-User: alice", "in place of {path}"},
	{"two fields, a method", `"{header:X-User} {method}"`, "alice GET", "X-User: alice", ""},
}

// A block refuses the client whose key it names, or is an error; so does a block list in a file.
func TestBlocksNameTheKey(t *testing.T) {
	for _, test := range keyForms {
		file := "policies:\n  api:\n    key: " + test.key + "\n    limits: [100/1h]\n"
		s := start(t, file, nil)
		if got := s.check(t, "/x", "203.0.113.7", test.headers); got != 200 {
			t.Fatalf("%s: got %d before the block", test.name, got)
		}
		body, _ := json.Marshal(map[string]string{"key": test.text, "kind": "block", "who": "ann"})
		reply := s.send(t, "admin", "POST", "/v1/rulings", string(body))
		got := s.check(t, "/x", "203.0.113.7", test.headers)
		switch {
		case test.err != "" && (reply.status != 400 || !strings.Contains(reply.body, test.err) || !strings.Contains(reply.body, `"field":"key"`) || got != 200):
			t.Errorf("%s: got %d %s, and the client %d; want an error that says %q", test.name, reply.status, reply.body, got, test.err)
		case test.err == "" && (reply.status != 200 || got != 403):
			t.Errorf("%s: got %d %s, and the client %d; want it refused", test.name, reply.status, reply.body, got)
		}
		if other := s.check(t, "/x", "198.51.100.1", "X-User: other; X-Api-Key: other; X-Tenant: other"); other != 200 {
			t.Errorf("%s: another client got %d", test.name, other)
		}
		if test.err != "" {
			continue
		}
		if reply = s.send(t, "admin", "POST", "/v1/rulings/clear", string(body)); reply.status != 200 {
			t.Errorf("%s: unblocking: got %d %s", test.name, reply.status, reply.body)
		}
		if got := s.check(t, "/x", "203.0.113.7", test.headers); got != 200 {
			t.Errorf("%s: got %d after the block", test.name, got)
		}
		quoted, _ := json.Marshal("key:" + test.text)
		refusing := start(t, file+"    block: ["+string(quoted)+"]\n", nil)
		if got := refusing.check(t, "/x", "203.0.113.7", test.headers); got != 403 {
			t.Errorf("%s, in a block list: got %d, want 403", test.name, got)
		}
		quoted, _ = json.Marshal(test.text)
		lowered := start(t, file+"    overrides: [{key: "+string(quoted)+", limits: [1/1h]}]\n", nil)
		first, second := lowered.check(t, "/x", "203.0.113.7", test.headers), lowered.check(t, "/x", "203.0.113.7", test.headers)
		if first != 200 || second != 429 {
			t.Errorf("%s, in an override: got %d and %d, want 200 and 429", test.name, first, second)
		}
	}
}

// The response says whether the keys of a ruling were seen.
func TestRulingsSayWhatWasSeen(t *testing.T) {
	s := start(t, "policies:\n  api:\n    key: [\"{header:X-Api-Key}\", \"{header:X-User}\"]\n    limits: [100/1h]\n", nil)
	s.check(t, "/x", "203.0.113.7", "X-User: alice")
	for text, want := range map[string]string{
		"header:X-User:alice": `"seen":["header:X-User:alice"],"notes":["rulings are kept in memory`,
		"bobbbb":              `"seen":[]`,
		"bob*":                `"seen":[],"notes":["the * stands for itself`,
		"address:10.0.0.0/8":  `"seen":null`,
	} {
		if got := s.send(t, "admin", "POST", "/v1/rulings", `{"key":"`+text+`","kind":"block","who":"ann"}`); !strings.Contains(got.body, want) {
			t.Errorf("%s: got %s, want %s", text, got.body, want)
		}
	}
}

// A request is explained: which policies match, by which keys, and what decides.
func TestExplainRequest(t *testing.T) {
	s := start(t, `
policies:
  users: {match: /users/, key: header:X-User, limits: [1/1h], overrides: [{key: bob, limits: [7/1h]}]}
  all:   {key: address, limits: [9/1h], block: [198.51.100.0/24]}
  login: {match: POST /login, limits: [5/1m]}
`, nil)
	s.check(t, "/users/x", "203.0.113.7", "X-User: alice")
	s.send(t, "admin", "POST", "/v1/rulings", `{"policy":"all","key":"192.0.2.0/24","kind":"block","for":"1h","who":"ann"}`)
	for _, test := range []struct {
		request string
		want    []string
	}{
		{`{"method":"GET","url":"/users/x?a=b","headers":{"x-user":["alice"]},"address":"203.0.113.7"}`,
			[]string{`{"allowed":false,"policy":"users","by":"limits"`, `"key":"alice"`, `"key":"203.0.113.7"`, `"not_matching":["login"]`}},
		{`{"method":"GET","url":"/users/x","headers":{"X-User":["bob"]},"address":"203.0.113.7"}`, []string{`{"allowed":true`, `"override":"bob"`, `"quota":7`}},
		{`{"url":"/users/x","address":"203.0.113.9"}`, []string{`{"allowed":true`, `"key":"address:203.0.113.9"`, `{header:X-User} is missing`}},
		{`{"url":"/","address":"192.0.2.9"}`, []string{`{"allowed":false,"policy":"all","by":"ruling"`, `"ruling":{"policy":"all","key":"192.0.2.0/24"`}},
		{`{"url":"/","address":"198.51.100.9"}`, []string{`{"allowed":false,"policy":"all","by":"block_list","retry_after_us":null`, `"list":"198.51.100.0/24"`}},
		{`{"url":"/users/x","headers":{"X-User":["bob","eve"]}}`, []string{`{"allowed":false,"rejected":"X-User: the header is sent more than once`}},
		{`{"url":"/users/x","headers":{"X-User":["bob"],"X_User":["eve"]}}`, []string{`{"allowed":false,"rejected":"X-User: `}},
		{`{"url":"/users/x","headers":{"X-Other":["bob","eve"]},"address":"203.0.113.10"}`, []string{`{"allowed":true,"policy"`}},
		{`{"url":"login"}`, []string{`"status":400`, `"field":"url"`}},
		{`{"url":"/","address":"alice"}`, []string{`"status":400`, `"field":"address"`}},
	} {
		got := s.send(t, "admin", "POST", "/v1/explain/request", test.request)
		for _, want := range test.want {
			if !strings.Contains(got.body, want) {
				t.Errorf("%s: got %s, want %s", test.request, got.body, want)
			}
		}
	}
	if got := s.check(t, "/users/x", "203.0.113.9", "X-User: bob"); got != 200 {
		t.Errorf("got %d, want explanations to charge nothing", got)
	}
}

// What an operator asks about an address is answered as its requests are: lists of addresses apply where the key is the address, and the
// answer says so where it does not tell.
func TestExplainAppliesAddressLists(t *testing.T) {
	s := start(t, `
policies:
  own:   {key: address, limits: [9/1h], block: [203.0.113.0/24, "2001:db8::7"], allow: [192.0.2.1]}
  sent:  {limits: [9/1h], block: [203.0.113.0/24]}
  users: {key: header:X-User, limits: [9/1h], block: [203.0.113.0/24]}
  pairs: {key: "{address} {path}", limits: [9/1h], block: [203.0.113.0/24]}
  plain: {key: header:X-User, limits: [9/1h], block: ["key:eve"]}
default_policy: own
`, nil)
	const unknown = `"note":"the key does not tell the client's address`
	for _, test := range []struct{ policy, key, want, peeked string }{
		{"own", "203.0.113.9", `"by":"block_list"`, `"by":"block_list"`},
		{"own", "192.0.2.1", `"by":"allow_list"`, `"by":"allow_list"`},
		{"own", "198.51.100.1", `"by":"limits"`, `"by":"limits"`},
		{"own", "2001:db8::/64", unknown, `"by":"limits"`},
		{"sent", "203.0.113.9", `"by":"block_list"`, `"by":"block_list"`},
		{"sent", "alice", unknown, `"by":"limits"`},
		{"users", "alice", unknown, `"by":"limits"`},
		{"users", "address:203.0.113.9", `"by":"block_list"`, `"by":"block_list"`},
		{"pairs", "203.0.113.9 /x", unknown, `"by":"limits"`},
		{"plain", "alice", `"by":"limits"`, `"by":"limits"`},
	} {
		got := s.send(t, "admin", "GET", "/v1/explain?policy="+test.policy+"&key="+url.QueryEscape(test.key), "")
		if !strings.Contains(got.body, test.want) || strings.Contains(got.body, unknown) != (test.want == unknown) {
			t.Errorf("%s, %s: got %s, want %s", test.policy, test.key, got.body, test.want)
		}
		peeked := s.send(t, "admin", "POST", "/v1/peek", `{"policy":"`+test.policy+`","key":"`+test.key+`"}`)
		if !strings.Contains(peeked.body, test.peeked) {
			t.Errorf("%s, %s: peeked at %s, want %s", test.policy, test.key, peeked.body, test.peeked)
		}
	}
}
