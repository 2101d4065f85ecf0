package main

import (
	"net/http"
	"strings"
	"testing"
)

// The plan of the request selects the limits, and is shown.
func TestExplainPlan(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	file := write(t, "slidegate.yaml", []byte("policies:\n  api:\n    plan: header:X-Plan\n    plans: {pro: {limits: [60/1m]}, \"team-*\": {unlimited: true}}\n    limits: [6/1m]\n    key: header:X-Api-Key\n"))
	s := startServe(t, "--config", file)
	commandLines{
		{[]string{"explain", "ann"}, exitOK, "policy     api\nkey        \"ann\"\ndecision   allowed, by its limits\nlimit      6/1m: 6 of 6 left"},
		{[]string{"explain", "ann", "--plan", "pro"}, exitOK, "policy     api\nkey        \"ann\"\nplan       pro\ndecision   allowed, by its limits\nlimit      60/1m: 60 of 60 left"},
		{[]string{"explain", "ann", "--plan", "team-a"}, exitOK, "policy     api\nkey        \"ann\"\nplan       team-*\ndecision   allowed: no limit applies"},
		{[]string{"explain", "ann", "--plan", "gold"}, exitOK, "6 of 6 left"},
	}.play(t, "--server", s.url("admin"))
}

// In an outage, the headline of an explained request names the policy whose failure mode refuses, and why.
func TestExplainRequestInOutage(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	policies := write(t, "policies.yaml", []byte("store: redis://127.0.0.1:1\npolicies:\n  l: {key: address, limits: [9/1h], failure: local}\n  c: {key: address, limits: [9/1h], failure: closed}\n"))
	s := startServe(t, "--config", policies)
	explain := []string{"explain", "--request", "GET /", "--address", "192.0.2.1"}
	commandLines{
		{explain, exitOK, "refused, by the failure mode closed of the policy c, because the store does not answer"},
		{append(explain, "--format", "json"), exitOK, `"policy":"c","by":"limits","source":"fallback_closed"`},
	}.play(t, "--server", s.url("admin"))
}

// A request that /v1/check cannot decide, because it would hold slots, is explained as such, unless it is refused before, or in shadow mode.
func TestExplainRequestWithSlots(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	policies := write(t, "policies.yaml", []byte("trusted_proxies: [127.0.0.0/8]\npolicies:\n  first: {key: address, limits: [9/1h], block: [192.0.2.1]}\n"+
		"  slots: {match: /held, key: address, limits: [2 in-flight ttl=30s]}\n  watched: {match: /watched, key: address, limits: [2 in-flight ttl=30s], shadow: true}\n"))
	s := startServe(t, "--config", policies, "--log-format", "json")
	for _, test := range []struct {
		path, address, want string
		status              int
	}{
		{"/held", "192.0.2.2", "rejected, whatever the policies decide: /v1/check answers 500, because the policy slots has an in-flight limit", 500},
		{"/held", "192.0.2.1", "refused, by the block list of the policy first\n", 403},
		{"/watched", "192.0.2.2", "allowed\n", 200},
		{"/", "192.0.2.2", "allowed\n", 200},
	} {
		commandLines{{[]string{"explain", "--request", "GET " + test.path, "--address", test.address}, exitOK, test.want}}.play(t, "--server", s.url("admin"))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url("http")+"/v1/check", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {test.path}, "X-Forwarded-For": {test.address}}
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got.Body.Close(); got.StatusCode != test.status {
			t.Errorf("%s of %s: /v1/check answered %d, want %d", test.path, test.address, got.StatusCode, test.status)
		}
	}
}

// What is left of a token bucket is a part of its burst, under any name.
func TestLeftOfBucket(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	s := startServe(t, "--config", write(t, "policies.yaml", []byte("default_policy: a\npolicies:\n  a: {limits: [20/1h token-bucket burst=40]}\n  b: {limits: [20/1h token-bucket burst=40 name=x]}\n")))
	commandLines{
		{[]string{"explain", "ann"}, exitOK, "burst=40: 40 of 40 left"},
		{[]string{"explain", "ann", "--policy", "b"}, exitOK, `name="x": 40 of 40 left`},
		{[]string{"peek", "ann"}, exitOK, "allowed: 40 of 40 left"},
		{[]string{"peek", "ann", "--policy", "b"}, exitOK, "allowed: 40 left"}, // its name does not say the burst
	}.play(t, "--server", s.url("admin"))
}

// In an outage, what is left is said to be by the count of one instance.
func TestExplainInOutage(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	s := startServe(t, "--store", "redis://127.0.0.1:1", "--limit", "9/1h")
	const note = "note       what is left is by the count of this instance alone"
	commandLines{{[]string{"explain", "ann"}, exitOK, note}}.play(t, "--server", s.url("admin"))
	if got := mustCall(t, "explain", "ann", "--server", startServe(t, "--limit", "9/1h").url("admin")); strings.Contains(got, "note") {
		t.Errorf("got\n%s\nwant no note while the store answers", got)
	}
}
