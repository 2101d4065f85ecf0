package config

import (
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/fields"
)

// badRouteFiles are files with invalid lists of patterns, with their errors, line by line.
var badRouteFiles = []struct{ name, text, want string }{
	{"empty list of patterns", "policies:\n  a:\n    match: []\n    limits: [1/s]\n",
		`3:12: match: the list is empty; write a pattern, or leave match out for every request`},
	{"patterns", "policies:\n  a:\n    match:\n      - /a/*\n      - {cost: 5}\n      - {path: GETT /x, cost: -1}\n      - {pat: /y}\n      - [/z]\n      - {path: /b, cost: heder:X}\n      - {path: /c, cost: 2, unlimited: true}\n    limits: [9/s]\n", `
4:9: match: * is not a wildcard here; write "/a/" for everything below it, {name} for one whole segment, or %2A for the character itself
5:9: match: has no path; add path: /api/, say
6:16: match: unknown method "GETT"; write "GET /x"
6:31: cost: must be 0 to 9007199254740991, not -1
7:10: "pat" is not a field of a pattern; did you mean "path"? (want one of path, cost, unlimited)
8:9: match: must be a string, not a list
9:26: cost: "heder:X" is not a cost; did you mean "header"? (want a whole number in plain digits, header:NAME, bytes or field:PATH)
10:9: match: the pattern has a cost and is unlimited; leave one out`},
	{"only unlimited patterns", "policies:\n  a:\n    match: [{path: /healthz, unlimited: true}]\n    limits: [1/s]\n",
		`3:12: match: all patterns are unlimited; add the pattern of the requests that are limited, such as / for all others`},
	{"equal patterns", "policies:\n  a:\n    match:\n      - /a/\n      - {path: \"GET /b/{x}\", cost: 2}\n      - {path: /a/, cost: 2}\n      - \"GET /b/{y}\"\n      - \"/a/{rest...}\"\n    limits: [9/s]\n", `
6:9: match: "/a/" matches the same requests as "/a/" on line 4; remove one
7:9: match: "GET /b/{y}" matches the same requests as "GET /b/{x}" on line 5; remove one
8:9: match: "/a/{rest...}" matches the same requests as "/a/" on line 4; remove one`},
	{"many patterns", "policies:\n  a:\n    match: [" + strings.Repeat("/x, ", 100) + "/y]\n    limits: [1/s]\n",
		`3:413: match: a policy may have at most 100 patterns`},
}

// The most specific pattern determines the cost of a request, and no spelling of a path makes it cheaper.
func TestCostByRoute(t *testing.T) {
	file, err := Parse("test.yaml", []byte(`
policies:
  api:
    match:
      - /api/
      - {path: POST /api/search, cost: 10}
      - {path: /api/export, cost: 50}
      - {path: /api/export/ping, cost: 0}
      - {path: /api/upload, cost: "header:X-Cost"}
    cost: 2
    limits: [1000/1m]
`))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := HTTP(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		method, path, header string
		want                 int64
	}{
		{"GET", "/api/", "", 2},
		{"GET", "/api/search", "", 2},
		{"POST", "/api/search", "", 10},
		{"GET", "/api/export", "", 50},
		{"GET", "/api/export/ping", "", 0},
		{"GET", "/api/x%2F..%2Fexport", "", 50},      // decoded, it is the export
		{"GET", "/api/export%2F..%2Fexport", "", 50}, // decoded, it is the export
		{"GET", "/api/export%2Fping", "", 2},         // which a server may read as another path below /api/
		{"GET", "/api/upload", "7", 7},
		{"GET", "/api/upload", "", 1},
		{"GET", "/api/upload", "0", 1},
		{"GET", "/api/upload", "-5", 1},
		{"GET", "/api/upload", "1.5", 1},
		{"GET", "/api/upload", "99999999999999999999999", fields.MaxCost},
		{"GET", "/api/upload", "9007199254740992", fields.MaxCost},
		{"GET", "/elsewhere", "", 2}, // the policy was selected by its name
	} {
		r := httptest.NewRequest(test.method, test.path, nil)
		if test.header != "" {
			r.Header.Set("X-Cost", test.header)
		}
		if got := opts.Policies[0].Cost(r); got != test.want {
			t.Errorf("%s %s with X-Cost %q: got cost %d, want %d", test.method, test.path, test.header, got, test.want)
		}
	}
}

// A pattern that is unlimited exempts its requests, and no other spelling of a path does.
func TestUnlimitedRoute(t *testing.T) {
	file, err := Parse("test.yaml", []byte(`
policies:
  api:
    match: [/, {path: /healthz, unlimited: true}, {path: GET /public/, unlimited: true}, GET /public/export]
    limits: [1000/1m]
`))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := HTTP(file)
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]bool{
		"GET /healthz": true, "POST /healthz": true, "GET /healthz?full=1": true, "GET //healthz": false, "GET /x/../healthz": true,
		"GET /healthz/": false, "GET /healthz/x": false, "GET /": false, "GET /api": false,
		"GET /public/a": true, "POST /public/a": false, "GET /public/export": false, "GET /public/%65xport": false,
		"GET /public/x%2F..%2Fexport": false, "GET /public%2F..%2Fapi": false, "GET /public/..%2Fapi": false, "GET /api%2F..%2Fhealthz": false,
	} {
		method, target, _ := strings.Cut(request, " ")
		if got := opts.Policies[0].Skip(httptest.NewRequest(method, target, nil)); got != want {
			t.Errorf("%s: got exempt %v, want %v", request, got, want)
		}
	}
	again, err := Parse("test.yaml", Format(file))
	if err != nil || !reflect.DeepEqual(again.Policies[0].Match, file.Policies[0].Match) {
		t.Errorf("formatted: got %+v, %v; want %+v", again, err, file)
	}
}
