package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
)

// accessLog writes a log in the common format with one request per second.
func accessLog(t *testing.T, requests ...string) string {
	t.Helper()
	var b strings.Builder
	for i, request := range requests {
		address, target, _ := strings.Cut(request, " ")
		fmt.Fprintf(&b, "%s - - [10/Oct/2026:13:%02d:%02d +0000] \"%s HTTP/1.1\" 200 5\n", address, i/60, i%60, target)
	}
	return write(t, "access.log", []byte(b.String()))
}

func times(n int, request string) (all []string) {
	for range n {
		all = append(all, request)
	}
	return all
}

// findings replays and returns the findings of the JSON report.
func findings(t *testing.T, args ...string) (found struct {
	replay.Findings
	Sources         []traffic.Source
	Notes           []string
	SuggestedPolicy string `json:"suggested_policy"`
}) {
	t.Helper()
	if err := json.Unmarshal([]byte(mustCall(t, append([]string{"replay", "--format", "json"}, args...)...)), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

const sitePolicies = `
policies:
  login:
    match: POST /login
    limits: [3/1h fixed-window]
    block: [203.0.113.66]
  api:
    match: /api/
    limits: [2/1h fixed-window]
    allow: [10.0.0.0/8]
    overrides:
      - {key: 203.0.113.9, limits: [5/1h fixed-window]}
      - {keys: "2001:*", unlimited: true}
`

// A policy counts the requests that its match, its overrides and its lists select, and no others.
func TestReplayOfPolicies(t *testing.T) {
	file := write(t, "slidegate.yaml", []byte(sitePolicies))
	var log []string
	log = append(log, times(20, "203.0.113.7 GET /")...)
	log = append(log, times(20, "203.0.113.7 GET /login")...)
	log = append(log, times(5, "203.0.113.7 POST /login")...)    // 2 refused
	log = append(log, times(2, "203.0.113.66 POST //login")...)  // on the block list
	log = append(log, times(5, "203.0.113.7 GET /api/users")...) // 3 refused
	log = append(log, times(6, "10.0.0.1 GET /api/users")...)    // on the allow list
	log = append(log, times(7, "203.0.113.9 GET /api/users")...) // 2 refused by the override
	log = append(log, times(9, "2001:db8::1 GET /api/users")...) // unlimited
	access := accessLog(t, log...)
	for _, test := range []struct {
		policy            []string
		admitted, refused int64
		unmatched         int64
		byPolicy          string
	}{
		{nil, 25, 9, 40, "[{login false 7 4 2 0 0 0} {api false 27 5 0 6 9 7}]"},
		{[]string{"--policy", "login"}, 3, 4, 67, "[{login false 7 4 2 0 0 0}]"},
		{[]string{"--policy", "api"}, 22, 5, 47, "[{api false 27 5 0 6 9 7}]"},
	} {
		found := findings(t, append(test.policy, "--config", file, access)...)
		if o := found.Outcome; o.Admitted != test.admitted || o.Refused != test.refused || found.Sources[0].Unmatched != test.unmatched {
			t.Errorf("%v: got %d admitted, %d refused, %d unmatched; want %d, %d and %d", test.policy, o.Admitted, o.Refused,
				found.Sources[0].Unmatched, test.admitted, test.refused, test.unmatched)
		}
		if got := fmt.Sprint(found.Policies); got != test.byPolicy {
			t.Errorf("%v: got the policies %s, want %s", test.policy, got, test.byPolicy)
		}
		if len(found.Notes) > 0 {
			t.Errorf("%v: got the notes %q, want none: the log has all fields of the policies", test.policy, found.Notes)
		}
	}
}

// What could not be replayed for lack of fields is noted in the text, on the page and in the JSON.
func TestReplayNotesMissingFields(t *testing.T) {
	file := write(t, "slidegate.yaml", []byte(`
policies:
  shop: {match: shop.example/, limits: [2/1h]}
  partners: {key: "{header:X-Api-Key}", limits: [2/1h]}
  tried: {limits: [2/1h], shadow: true, penalty: 2h}
`))
	access := accessLog(t, times(5, "203.0.113.7 GET /")...)
	page := filepath.Join(t.TempDir(), "page.html")
	text := strings.Join(strings.Fields(mustCall(t, "replay", "--config", file, "--html", page, access)), " ")
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := findings(t, "--config", file, access)
	for _, want := range []string{
		"The log has no host, so shop.example/ of the policy shop was matched without it",
		"The policy partners was left out: the format common has no header:X-Api-Key",
		"The penalty of the policy tried was not replayed",
	} {
		for where, got := range map[string]string{"text": text, "page": string(html), "JSON": strings.Join(found.Notes, "\n")} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is missing in\n%s", where, want, got[:min(len(got), 3000)])
			}
		}
	}
	if o := found.Outcome; o.Admitted != 2 || o.Refused != 3 {
		t.Errorf("got %d admitted and %d refused, want 2 and 3: the limit of shop decides, and the shadow policy refuses nothing", o.Admitted, o.Refused)
	}
	alone := findings(t, "--config", file, "--policy", "tried", access)
	if alone.Outcome.Refused != 3 || !strings.Contains(strings.Join(alone.Notes, "\n"), "tried is a shadow policy") {
		t.Errorf("shadow policy alone: got %d refused and the notes %q; want 3 and a note", alone.Outcome.Refused, alone.Notes)
	}
	if wrong := call(t, "replay", "--config", file, "--policy", "partners", access); wrong.status != exitFailure || !strings.Contains(wrong.err, "X-Api-Key") {
		t.Errorf("policy whose key the log does not have: got status %d, %s", wrong.status, wrong.err)
	}
	if wrong := call(t, "replay", "--config", file, "--sweep", "1..9", access); wrong.status != exitFailure || !strings.Contains(wrong.err, "shop") {
		t.Errorf("sweep over several policies: got status %d, %s", wrong.status, wrong.err)
	}
}

// Hosts and paths are normalized in keys as for live requests: a port, capitals and a trailing dot make no different key, nor do
// double slashes or a percent-encoded letter.
func TestReplayKeysAreCanonical(t *testing.T) {
	var b strings.Builder
	for i, host := range []string{"shop.example", "SHOP.example", "shop.example.", "shop.example:1", "shop.example:99999", "shop.example..:80"} {
		path := []string{"/login", "//login", "/%6cogin", "/./login", "/a/../login", "/login#x"}[i]
		fmt.Fprintf(&b, `{"ts":%d,"request":{"client_ip":"203.0.113.7","method":"GET","host":%q,"uri":%q},"status":200}`+"\n", 1767600000+i, host, path)
	}
	access := write(t, "caddy.log", []byte(b.String()))
	for _, key := range []string{"{host}", "{header:Host}", "{path}", "{host} {path}"} {
		if found := findings(t, "--key", key, "--limit", "1/1h", access); found.Traffic.Keys != 1 {
			t.Errorf("%s: got %d keys, want 1", key, found.Traffic.Keys)
		}
	}
}

// A replay does not connect to the store, so it needs no password.
func TestReplayNeedsNoPassword(t *testing.T) {
	file := write(t, "slidegate.yaml", []byte("store: redis://:${SLIDEGATE_TEST_UNSET}@localhost:6379\n"+sitePolicies))
	if found := findings(t, "--config", file, accessLog(t, times(5, "203.0.113.7 POST /login")...)); found.Outcome.Refused != 2 {
		t.Errorf("got %d refused, want 2", found.Outcome.Refused)
	}
}

// The page describes the key by its fields, without the text between them.
func TestReplayPageDescribesTheKey(t *testing.T) {
	log := write(t, "access.log", []byte(`203.0.113.7 - ann [10/Oct/2026:13:00:00 +0000] "GET / HTTP/1.1" 200 5 "http://shop.example/" "curl/8"`+"\n"))
	each := func(args ...string) string {
		path := filepath.Join(t.TempDir(), "page.html")
		mustCall(t, append([]string{"replay", "--html", path, log}, args...)...)
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, found, _ := strings.Cut(string(page), "for each ")
		found, _, _ = strings.Cut(found, "<")
		return found
	}
	for key, want := range map[string]string{
		`address`:                               "address",
		`"{address} {path}"`:                    "address and path",
		`"{address}:{path}"`:                    "address and path",
		`"tenant {{x}} {user}"`:                 "user",
		`[header:User-Agent, "{user}"]`:         "header:User-Agent, or else user",
		`["{user} {path}", "{address}"]`:        "user and path, or else address",
		`["{user}", "{header:Referer}-{path}"]`: "user, or else header:Referer and path",
	} {
		file := write(t, "slidegate.yaml", []byte("policies:\n  api:\n    key: "+key+"\n    limits: [2/1m]\n"))
		if got := each("--config", file); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if got := each("--key", "{address}/{method}"); got != "address and method" {
		t.Errorf("--key: got %q, want address and method", got)
	}
}

// The patterns of a list share one quota, each with its own cost.
func TestReplayOfCostsByRoute(t *testing.T) {
	file := write(t, "slidegate.yaml", []byte(`
policies:
  api:
    match: [/api/, {path: POST /api/search, cost: 10}, {path: /upload, cost: "header:X-Cost"}]
    limits: [25/1h fixed-window]
`))
	var log []string
	log = append(log, times(2, "203.0.113.7 POST /api/search")...) // 20 units
	log = append(log, times(4, "203.0.113.7 GET /api/search")...)  // 24
	log = append(log, times(2, "203.0.113.7 POST /api/search")...) // refused
	log = append(log, times(2, "203.0.113.7 PUT /upload")...)      // 25, and one refused
	log = append(log, times(3, "203.0.113.7 GET /")...)
	found := findings(t, "--config", file, accessLog(t, log...))
	if found.Outcome.Admitted != 7 || found.Outcome.Refused != 3 {
		t.Errorf("got %d admitted and %d refused, want 7 and 3", found.Outcome.Admitted, found.Outcome.Refused)
	}
	if notes := strings.Join(found.Notes, "\n"); !strings.Contains(notes, "The log has no header:X-Cost, so requests with that cost under the policy api were counted as 1 each.") {
		t.Errorf("got the notes %s, want one about X-Cost", notes)
	}
}

// A penalty is not replayed, and the report says so.
func TestReplayNotesPenalty(t *testing.T) {
	file := write(t, "slidegate.yaml", []byte("policies:\n  api: {limits: [2/1m], penalty: 10m}\n"))
	found := findings(t, "--config", file, accessLog(t, times(9, "203.0.113.7 GET /api/a")...))
	want := "The penalty of the policy api was not replayed: the service would refuse keys for 10m0s after an excess, and so refuse more."
	if got := found.Sources[0].Notes; len(got) != 1 || got[0] != want {
		t.Errorf("got the notes %q, want %q", got, want)
	}
}

// If the log has the header of the plan, each request faces the limits of its plan; otherwise a note says so.
func TestReplayOfPlans(t *testing.T) {
	file := write(t, "slidegate.yaml", []byte(`
policies:
  api:
    plan: header:X-Plan
    plans: {pro: {limits: [3/1h fixed-window]}, internal: {unlimited: true}}
    limits: [1/1h fixed-window]
    overrides: [{key: 203.0.113.9, limits: [2/1h fixed-window]}]
`))
	var log strings.Builder
	line := func(n int, address, plan string) {
		for range n {
			fmt.Fprintf(&log, `{"level":"info","ts":1760000000.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":%q,"client_ip":%q,"proto":"HTTP/1.1","method":"GET","host":"a.example","uri":"/","headers":{"X-Plan":[%q]}},"status":200,"size":5,"duration":0.001}`+"\n", address, address, plan)
		}
	}
	line(5, "203.0.113.1", "pro")      // 2 refused
	line(5, "203.0.113.2", "gold")     // 4 refused: unknown plan
	line(5, "203.0.113.3", "internal") // none
	line(5, "203.0.113.9", "pro")      // 3 refused by the override
	found := findings(t, "--config", file, write(t, "caddy.log", []byte(log.String())))
	if o := found.Outcome; o.Admitted != 11 || o.Refused != 9 || len(found.Notes) > 0 {
		t.Errorf("got %d admitted, %d refused and the notes %q, want 11, 9 and none", o.Admitted, o.Refused, found.Notes)
	}
	text := mustCall(t, "replay", "--config", file, accessLog(t, times(3, "203.0.113.7 GET /")...))
	if want := "The log has no header:X-Plan, so all requests under the policy api were counted as having no plan."; !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
		t.Errorf("got\n%s\nwant in the report: %s", text, want)
	}
}
