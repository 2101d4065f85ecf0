package gate_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
)

// plansFile holds policies with plans by header and by key, and costs by route.
const plansFile = `
policies:
  api:
    match: [/api/, {path: POST /api/search, cost: 3}]
    key: header:X-Api-Key
    plan: header:X-Plan
    plans:
      pro: {limits: [6/1h]}
      "team-*": {limits: [50/1h]}
      internal: {unlimited: true}
    limits: [2/1h]
    overrides: [{key: vip, limits: [9/1h]}]
  keyed:
    match: /keyed
    key: header:X-Api-Key
    plan: key
    plans: {"pro-*": {limits: [2/1h]}, root: {unlimited: true}}
    limits: [1/1h]
`

// admitted sends requests and returns how many were admitted, and the plan of the last decision.
func admitted(t *testing.T, g *gate.Gate, n int, method, path, key, plan string) (count int, by string) {
	t.Helper()
	for range n {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("X-Api-Key", key)
		if plan != "" {
			r.Header.Set("X-Plan", plan)
		}
		v, err := g.CheckRequest(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if v.Decision.Allowed {
			count++
		}
		by = v.Plan
	}
	return count, by
}

func TestPlans(t *testing.T) {
	file, err := config.Parse("test.yaml", []byte(plansFile))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gate.New(file, memory(t, newClock()), gate.Options{Requests: true})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, test := range []struct {
		n                       int
		method, path, key, plan string
		want                    int
		by                      string
	}{
		{4, "GET", "/api/x", "ann", "", 2, ""},
		{4, "GET", "/api/x", "ann", "gold", 0, ""},         // unknown plan
		{1, "GET", "/api/x", "ann", "pro", 1, "pro"},       // continues the counts of ann
		{2, "POST", "/api/search", "ann", "pro", 1, "pro"}, // 3 more of 6
		{9, "GET", "/api/x", "ann", "internal", 9, "internal"},
		{9, "GET", "/api/x", "bob", "team-a", 9, "team-*"},
		{12, "GET", "/api/x", "vip", "internal", 9, ""}, // the override takes precedence
		{3, "GET", "/keyed", "pro-1", "", 2, ""},
		{3, "GET", "/keyed", "other", "", 1, ""},
		{3, "GET", "/keyed", "root", "", 3, ""},
	} {
		if got, by := admitted(t, g, test.n, test.method, test.path, test.key, test.plan); got != test.want || by != test.by {
			t.Errorf("got %d of %d %s %s of %s with the plan %q admitted by %q, want %d by %q",
				got, test.n, test.method, test.path, test.key, test.plan, by, test.want, test.by)
		}
	}
	for _, test := range []struct {
		request        gate.Request
		plan, override string
		quota          int64
	}{
		{gate.Request{Policy: "api", Key: "ann", Cost: 1}, "", "", 2},
		{gate.Request{Policy: "api", Key: "ann", Cost: 1, Plan: "pro"}, "pro", "", 6},
		{gate.Request{Policy: "api", Key: "ann", Cost: 1, Plan: "team-9"}, "team-*", "", 50},
		{gate.Request{Policy: "api", Key: "vip", Cost: 1, Plan: "pro"}, "", "vip", 9},
		{gate.Request{Policy: "api", Key: "ann", Cost: 1, Plan: "internal"}, "internal", "", 0},
		{gate.Request{Policy: "keyed", Key: "pro-1", Cost: 1}, "pro-*", "", 2},
		{gate.Request{Policy: "keyed", Key: "root", Cost: 1}, "root", "", 0},
	} {
		e, err := g.Explain(t.Context(), test.request)
		if err != nil {
			t.Fatal(err)
		}
		var quota int64
		if len(e.Limits) > 0 {
			quota = e.Limits[0].Quota
		}
		if e.Plan != test.plan || e.Override != test.override || quota != test.quota {
			t.Errorf("Explain of %+v: got %+v, want the plan %q, the override %q and a quota of %d", test.request, e, test.plan, test.override, test.quota)
		}
	}
	if got := g.LimitsOf("keyed", "pro-7"); len(got) != 1 || got[0].Quota != 2 {
		t.Errorf("limits of pro-7: got %v, want those of its plan", got)
	}
}

// A request that names a plan is decided by it, alone and in a batch. Unlisted names, and all names if the key selects the
// plan, are ignored.
func TestRequestNamesPlan(t *testing.T) {
	file, err := config.Parse("test.yaml", []byte(plansFile))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gate.New(file, memory(t, newClock()), gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	reqs := []gate.Request{
		{Policy: "api", Key: "ann", Cost: 1}, {Policy: "api", Key: "bob", Cost: 1, Plan: "pro"},
		{Policy: "api", Key: "cid", Cost: 1, Plan: "gold"}, {Policy: "keyed", Key: "dan", Cost: 1, Plan: "root"},
	}
	decisions, errs := make([]policy.Decision, len(reqs)), make([]error, len(reqs))
	g.AllowBatch(t.Context(), reqs, decisions, errs)
	for i, quota := range []int64{2, 6, 2, 1} {
		if v := decisions[i]; errs[i] != nil || !v.Decision.Allowed || v.Decision.Quota != quota {
			t.Errorf("%+v in a batch: got %+v, %v; want a quota of %d", reqs[i], v, errs[i], quota)
		}
		if v, err := g.Do(t.Context(), gate.Peek, reqs[i]); err != nil || v.Decision.Quota != quota {
			t.Errorf("%+v: got %+v, %v; want a quota of %d", reqs[i], v, err, quota)
		}
	}
}

// A reload that only changes how tokens are verified takes effect and is logged.
func TestReloadOfTokens(t *testing.T) {
	var text bytes.Buffer
	const before = `
jwt: {keys: /nowhere/jwks.json}
policies: {api: {key: "{claim:sub}", limits: [1/1h]}}
`
	parse := func(text string) *config.File {
		file, err := config.Load(config.Options{Offline: true, Stdin: strings.NewReader(text)}, "-")
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	g, err := gate.New(parse(before), memory(t, newClock()), gate.Options{Requests: true, Logger: slog.New(slog.NewTextHandler(&text, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	// {"alg":"HS256"}.{"sub":"ann"}, and an invalid signature.
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.AAAA")
	for i, want := range []bool{true, false} {
		if v, err := g.CheckRequest(t.Context(), r); err != nil || v.Decision.Allowed != want {
			t.Fatalf("request %d by address: got %+v, %v", i+1, v, err)
		}
	}
	if err := g.Reload(parse(strings.Replace(before, "keys: /nowhere/jwks.json", "verified: true", 1))); err != nil {
		t.Fatal(err)
	}
	if v, err := g.CheckRequest(t.Context(), r); err != nil || !v.Decision.Allowed {
		t.Errorf("after the reload: got %+v, %v; want a separate key for ann", v, err)
	}
	if !strings.Contains(text.String(), "request tokens are verified with new keys or rules from now on") {
		t.Errorf("got the log %s, want it to mention tokens", text.String())
	}
}
