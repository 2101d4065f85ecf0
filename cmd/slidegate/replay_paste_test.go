package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit/generate"
)

// busyLog writes a combined log with several paths, in which some clients send many requests and others few.
func busyLog(t *testing.T, requests int) string {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 5))
	var b strings.Builder
	for i := range requests {
		client := min(r.IntN(200), r.IntN(200), r.IntN(200))
		path := []string{"/api/items?page=2", "/api/items/7", "/login", "/static/a.css"}[r.IntN(4)]
		method := []string{"GET", "GET", "POST"}[r.IntN(3)]
		fmt.Fprintf(&b, "203.0.113.%d - - [15/Nov/2026:06:%02d:%02d +0000] \"%s %s HTTP/1.1\" %d 512 \"-\" \"agent/%d\"\n",
			client, i/60/20%60, i/20%60, method, path, 200+r.IntN(2)*229, client%5)
	}
	return write(t, "busy.log", []byte(b.String()))
}

// The suggested policy, replayed from a file on the same traffic, gives the promised figures.
func TestSuggestedPolicyKeepsItsPromise(t *testing.T) {
	lines := write(t, "made.jsonl", []byte(made(t, generate.Options{Requests: 20_000})))
	busy := busyLog(t, 20_000)
	samples := func(name string) string { return filepath.Join("internal", "replay", "traffic", "testdata", name) }
	file := write(t, "slidegate.yaml", []byte(`
address_groups: {ipv4: 28}
policies:
  api:
    match: /api/
    key: "{address} {method}"
    cost: 2
    limits: [10/1m, 200/1h, 5 in-flight ttl=30s]
    block: [203.0.113.3]
    overrides:
      - {key: "203.0.113.0/28 GET", limits: [500/1m]}
      - {keys: "203.0.113.1*", unlimited: true}
  rest:
    limits: [1000/1m]
`))
	for _, tt := range []struct {
		name  string
		input []string
		flags []string
		again []string // flags to repeat with the policy
		want  string
	}{
		{"JSON lines", []string{lines}, []string{"--limit", "30/1m"}, nil, "    key: \"{key}\"\n"},
		{"fixed window", []string{lines}, []string{"--limit", "300/1m fixed-window anchor=first"}, nil, " fixed-window anchor=first\n"},
		{"addresses", []string{busy}, []string{"--limit", "5/1m"}, nil, "    key: \"{address}\"\n    cost: 1\n"},
		{"default above 100", []string{busy}, []string{"--limit", "500/1m", "--cost", "5", "--suggest", "0"}, nil, "    cost: 5\n"},
		{"two limits", []string{busy}, []string{"--limit", "5/1m", "--limit", "50/1h"}, nil, "      - 50/1h"},
		{"bucket", []string{busy}, []string{"--limit", "9/1m token-bucket", "--sweep", "1..200"}, nil, " token-bucket # burst="},
		{"calendar", []string{busy}, []string{"--limit", "9/day zone=Europe/Berlin"}, nil, "/day zone=Europe/Berlin"},
		{"key and cost", []string{busy}, []string{"--limit", "5/1m", "--key", "{address} {path}", "--cost", "3"}, nil, "    key: \"{address} {path}\"\n    cost: 3\n"},
		{"bytes", []string{busy}, []string{"--limit", "5000/1m", "--cost", "bytes"}, nil, "# For replay only"},
		{"prefix", []string{busy}, []string{"--limit", "5/1m", "--ipv4-prefix", "28"}, nil, "address_groups: {ipv4: 28"},
		{"filter", []string{busy}, []string{"--limit", "5/1m", "--path", "/api/*", "--method", "post"}, nil, "    match: \"POST /api/\"\n"},
		{"filters", []string{busy}, []string{"--limit", "5/1m", "--path", "/api/*", "--path", "/login", "--method", "POST", "--method", "PUT"}, nil, "PUT /login"},
		{"one path", []string{busy}, []string{"--limit", "5/1m", "--path", "/login"}, nil, "    match: \"/login\"\n"},
		{"status", []string{busy}, []string{"--limit", "5/1m", "--status", "!429"}, []string{"--status", "!429"}, "which match cannot express"},
		{"haproxy", []string{samples("haproxy.log")}, []string{"--limit", "1/1m"}, nil, "/1m"},
		{"alb", []string{samples("alb.log")}, []string{"--limit", "1/1m", "--key", "{host}"}, nil, "/1m"},
		{"cloudfront", []string{samples("cloudfront.log")}, []string{"--limit", "1/1m", "--key", "header:User-Agent"}, nil, "/1m"},
		{"combined", []string{samples("combined.log")}, []string{"--limit", "1/1m", "--path", "!/login"}, []string{"--path", "!/login"}, "/1m"},
		{"policy of a file", []string{busy}, []string{"--config", file, "--policy", "api"}, nil, "5 in-flight ttl=30s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append(append([]string{"--suggest", "10%"}, tt.flags...), tt.input...)
			found := findings(t, args...)
			promise, text := found.Suggestion.Effective(), found.SuggestedPolicy
			if !strings.Contains(text, tt.want) {
				t.Errorf("%q is missing in the policy:\n%s", tt.want, text)
			}
			if !strings.Contains(mustCall(t, append([]string{"replay"}, args...)...), "\n    policies:\n") {
				t.Error("the text report has no policy")
			}
			pasted := write(t, "pasted.yaml", []byte(text))
			again := findings(t, append(append(tt.again, "--config", pasted), tt.input...)...).Outcome
			if again.Admitted != promise.Admitted || again.Refused != promise.Refused || again.KeysTouched != promise.KeysTouched ||
				again.UnitsAdmitted != promise.UnitsAdmitted || again.Lockout.Length != promise.Lockout.Length {
				t.Errorf("%s\ngot %d admitted, %d refused, %d touched; want %d, %d, %d as promised", text,
					again.Admitted, again.Refused, again.KeysTouched, promise.Admitted, promise.Refused, promise.KeysTouched)
			}
			if tt.input[0] == busy && (promise.Refused == 0) == (tt.name != "default above 100") {
				t.Errorf("got %d refused: the case tests nothing", promise.Refused)
			}
		})
	}
}

// A filter is not turned into a match that would select other requests of this log.
func TestSuggestedPolicyOmitsMatchThatDiffers(t *testing.T) {
	log := accessLog(t, append(times(9, "203.0.113.7 GET /api/a"), "203.0.113.7 GET //api/a", "203.0.113.7 GET /other")...)
	found := findings(t, "--limit", "2/1m", "--path", "/api/*", "--suggest", "1%", log)
	want := `# The figures apply with --path '/api/*': replay with the same filters. match: ["/api/"] would differ in 1 of the lines.`
	if text := found.SuggestedPolicy; strings.Contains(text, "    match:") || !strings.Contains(text, want) {
		t.Errorf("got\n%s\nwant no match, and\n%s", text, want)
	}
}
