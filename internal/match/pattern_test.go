package match

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// wrongPatterns are patterns in the syntax of other programs, each with what the error says to write instead. ServeMux accepts
// nearly all of them, and they match nothing.
var wrongPatterns = []struct{ pattern, want string }{
	{"/api/*", `write "/api/" for everything below it`},
	{"/api/**", `write "/api/"`},
	{"/api/*/items", `write "/api/"`},
	{"/api/*/items", `{name} for one whole segment`},
	{"/api*", `write "/"`},
	{"/*", `write "/"`},
	{"/img/*.png", `write "/img/"`},
	{"POST /api/*", `write "POST /api/"`},
	{"GET api.example.com/v1/*", `write "GET api.example.com/v1/"`},
	{"*", `write / for every request`},
	{".*", `write / for every request`},
	{"*.example.com/", `a host has no wildcards`},
	{".example.com/", `a host has no wildcards`},
	{"{tenant}.example.com/", `a host has no wildcards`},
	{"^/foo/.*$", `write "/foo/" for everything below it`},
	{"^/foo/(a|b)$", `write "/foo/"`},
	{"~ ^/api/", `"~" is not a method`},
	{"^~ /static/", `"^~" is not a method`},
	{"= /login", `"=" is not a method`},
	{"/foo/.*", `write "/foo/"`},
	{"/foo/.+", `write "/foo/"`},
	{"/foo/+", `write "/foo/"`},
	{"/foo$", `%24 for the character itself`},
	{"/(a|b)", `write "/" for everything below it`},
	{"/a|/b", `%7C for the character itself`},
	{"/foo/[0-9]+", `write "/foo/"`},
	{"/foo/[id]", `{name} for one whole segment`},
	{`/foo/\d+`, `%5C for the character itself`},
	{"/x?", `write "/x"`},
	{"/login?x=1", `write "/login", or %3F for the character itself`},
	{"/login#form", `write "/login", or %23`},
	{"/users/:id", `write {id} for one whole segment, or %3A`},
	{"/flights/:from-:to", `write {from}`},
	{"/users/@:name", `write {name}`},
	{"/users/<id>", `write {id}`},
	{"/users/<int:id>", `{int} for one whole segment`},
	{"/users/{id:[0-9]+}", `write {id} for one segment, {id...} for all that follows`},
	{"/users/{id:int}", `write {id}`},
	{"/files/{*path}", `{path...} for all that follows`},
	{"/files/{path*}", `{path...} for all that follows`},
	{"/files/{path:.*}", `{path...} for all that follows`},
	{"/users/{id}.json", `a wildcard is a whole segment; write {id}`},
	{"/v{version}/x", `a wildcard is a whole segment; write {version}`},
	{"/users/{}", `write {name}`},
	{"/{rest...}/x", `may only end a pattern`},
	{"/a/{$}/b", `may only end a pattern`},
	{"/users/{id", `a wildcard is a whole segment`},
	{"https://shop.example/login", `write "shop.example/login", or "/login" for every host`},
	{"http://user:hunter2@shop.example:8080/login?x=1", `write "shop.example/login"`},
	{"POST https://shop.example/login", `a pattern is not a URL`},
	{"post /login", `methods are written in capitals; write "POST /login"`},
	{"Get /login", `write "GET /login"`},
	{"GET,POST /login", `write a policy for each`},
	{"GET|POST /login", `write a policy for each`},
	{"GET POST /login", `write a policy for each`},
	{"ANY /login", `leave it out for all methods: write "/login"`},
	{"* /login", `leave it out for all methods`},
	{"POST", `write "POST /"`},
	{"login", `write "/login" for a path, or "login/" for a host`},
	{"api/users", `write "/api/users" for a path, or "api./users" for the host`},
	{"API/users", `write "/API/users" for a path`},
	{"POST login/", `write "POST /login/" for a path`},
	{"shop.example:8080/login", `hosts are compared without their port; write "shop.example/login"`},
	{"[::1]:80/login", `write "[::1]/login"`},
	{"[::1]a/login", `is not a host`},
	{"shop.example:/login", `hosts are compared without their port`},
	{"bücher.example/", `xn--`},
	{"user@shop.example/", `is not a host`},
	{"./", `is not a host`},
	{"/login ", `remove it`},
	{" /login", `remove it`},
	{"/log in", `write %20`},
	{"/log\tin", `write %09`},
	{`/"login"`, `write %22`},
	{"/100%", `write %25`},
	{"/a%zz", `write %25`},
	{"/a//b", `write "/a/b"`},
	{"/a/./b", `write "/a/b"`},
	{"/a/../b/", `write "/b/"`},
	{"/a/..", `write "/"`},
	{"//", `write "/"`},
	{"/users/{id}/{id}", `is not a valid pattern of net/http`},
}

// A pattern in another syntax is an error that says what to write, and never a limit that applies to nothing.
func TestPatternsOfOtherLanguages(t *testing.T) {
	for _, test := range wrongPatterns {
		_, err := New(test.pattern)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("New(%q): got error %v, want it to contain %q", test.pattern, err, test.want)
		}
	}
}

// Literal characters can be written: some of them as they are, and all of them percent-encoded.
func TestLiteralPatterns(t *testing.T) {
	for _, test := range []struct{ pattern, target string }{
		{"/v1/items:archive", "/v1/items:archive"},
		{"/v1/items/1:cancel", "/v1/items/1:cancel"},
		{"/a+b", "/a+b"},
		{"/c%2B%2B", "/c++"},
		{"/odata/%24metadata", "/odata/$metadata"},
		{"/odata/Products%281%29", "/odata/Products(1)"},
		{"/a%2Ab", "/a*b"},
		{"/a%2Ab", "/a%2Ab"},
		{"/%3Aid", "/:id"},
		{"/a%3Fb", "/a%3Fb"},
		{"/a%20b/", "/a%20b/c"},
		{"/~user/", "/~user/x"},
		{"/a;b,c=d@e!f&g'h", "/a;b,c=d@e!f&g'h"},
		{"/café/", "/caf%C3%A9/x"},
		{"/café/", "/café/x"},
		{"/.well-known/", "/.well-known/x"},
		{"/a.b-c_d", "/a.b-c_d"},
		{"/a/{id}/{rest...}", "/a/1/b/c"},
		{"/a/{$}", "/a/"},
		{"M-SEARCH /x", "/x"},
	} {
		m, err := New(test.pattern)
		if err != nil {
			t.Errorf("New(%q) returned the error %v, want none", test.pattern, err)
			continue
		}
		method := "GET"
		if before, _, found := strings.Cut(test.pattern, " "); found {
			method = before
		}
		if !m.Match(httptest.NewRequest(method, test.target, nil)) {
			t.Errorf("%q does not match %s, want a match", test.pattern, test.target)
		}
	}
	for pattern, host := range map[string]string{
		"intranet./": "intranet:8080", "localhost/": "localhost", "Shop.Example/": "shop.example.", "192.0.2.1/": "192.0.2.1:80", "[::1]/": "[::1]:80",
	} {
		m, err := New(pattern)
		if err != nil {
			t.Errorf("New(%q) returned the error %v, want none", pattern, err)
			continue
		}
		r := httptest.NewRequest("GET", "/x", nil)
		if r.Host = host; !m.Match(r) {
			t.Errorf("%q does not match the host %s, want a match", pattern, host)
		}
	}
}
