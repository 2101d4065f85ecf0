package httplimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// named returns a limit of quota per minute.
func named(name string, quota int64) slidegate.Limit {
	limit := slidegate.PerMinute(quota)
	limit.Name = name
	return limit
}

// The counts of a policy are named by the policy and the limit, so that policies on one store are separate, and others find
// them.
func TestStateNames(t *testing.T) {
	for _, test := range []struct{ policy, limit, want, reported string }{
		{"", "", "", "5/1m"}, {"", "fast", "fast", "fast"}, {"api", "", "api", "api"}, {"api", "fast", "api/fast", "api/fast"},
		{"api", "fast/", "api/fast/", "api/fast/"}, {"api/v1", "", "api/v1", "api/v1"},
	} {
		for _, planned := range []bool{false, true} {
			var got string
			store := newHookStore(t, func(_ context.Context, r *store.Request) error {
				got = r.Charges[0].Limit.Name()
				return nil
			})
			given := Policy{Name: test.policy, Limits: []slidegate.Limit{named(test.limit, 5)}}
			if planned {
				limits := given.Limits
				given.Limits, given.Plan = []slidegate.Limit{named("usual", 7)}, func(*http.Request) (policy.Plan, error) { return policy.Limits(limits...), nil }
			}
			p := (&play{t: t}).over(store, Options{Policies: []Policy{given}}, nil)
			w := p.from("192.0.2.1")
			if reported, _, _ := strings.Cut(w.Header().Get("RateLimit"), ";"); got != test.want || reported != `"`+test.reported+`"` {
				t.Errorf("%+v, planned %v: got state %q and item %s, want %q and %q", test, planned, got, reported, test.want, test.reported)
			}
		}
	}
}

// New rejects two policies that would share counts, and limits that no store could decide.
func TestAllPolicyErrorsAreReported(t *testing.T) {
	narrow := newHookStore(t, func(context.Context, *store.Request) error { return nil })
	narrow.maxCharges = 2
	limiter, err := slidegate.New(narrow)
	if err != nil {
		t.Fatal(err)
	}
	one, two := []slidegate.Limit{named("", 1)}, []slidegate.Limit{named("x", 1), named("y", 1)}
	never := func(*http.Request) bool { return false }
	for name, test := range map[string]struct {
		limiter  *slidegate.Limiter
		policies []Policy
		want     string // empty if it is valid
	}{
		"a limit's name completes another's": {localLimiter(t), []Policy{{Name: "a", Limits: two}, {Name: "a/x", Limits: one}}, `"a" and "a/x"`},
		"the other way round":                {localLimiter(t), []Policy{{Name: "a/x", Limits: one}, {Name: "a", Limits: two}}, `"a/x" and "a"`},
		"names that only begin alike":        {localLimiter(t), []Policy{{Name: "a", Limits: two}, {Name: "ax", Limits: one}, {Name: "b/x", Limits: one}}, ""},
		"more limits than the store decides": {limiter, []Policy{{Name: "a", Limits: two}, {Name: "b", Limits: one}}, `policies ["a" "b"]: policy: not supported`},
		"for the same requests of a path":    {limiter, []Policy{{Name: "a", Limits: two}, {Name: "b", Limits: one, Match: "POST h.example/b/{id}/{rest...}"}}, `policies ["a" "b"]`},
		"not for the same requests":          {limiter, []Policy{{Name: "a", Limits: two, Match: "/a"}, {Name: "b", Limits: one, Match: "/b"}}, ""},
		"perhaps not for the same requests":  {limiter, []Policy{{Name: "a", Limits: two, Skip: never}, {Name: "b", Limits: one}}, ""},
		"not decided together":               {limiter, []Policy{{Name: "a", Limits: two}, {Name: "b", Limits: one, Shadow: true}}, ""},
		"a plan may have fewer":              {limiter, []Policy{{Name: "a", Limits: two, Plan: func(*http.Request) (policy.Plan, error) { return policy.Limits(one...), nil }}, {Name: "b", Limits: one}}, ""},
		"all that the store can":             {limiter, []Policy{{Name: "a", Limits: one}, {Name: "b", Limits: one}}, ""},
	} {
		_, err := New(test.limiter, Options{Policies: test.policies})
		if wrong := err != nil; wrong != (test.want != "") || wrong && !strings.Contains(err.Error(), "httplimit: ") || wrong && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want one of httplimit that contains %q, or none if that is empty", name, err, test.want)
		}
	}
}

// An invalid plan is an error, whichever policy it belongs to, and never a missing limit.
func TestInvalidPlanIsAnError(t *testing.T) {
	usual := []slidegate.Limit{named("usual", 7)}
	right := func(*http.Request) (policy.Plan, error) { return policy.Limits(named("plan", 5)), nil }
	for name, wrong := range map[string][]slidegate.Limit{
		"a name for no header": {named("gr\u00fcn", 1)}, "no quota": {named("", 0)}, "nothing at all": {}, "the same address twice": {named("x", 1), named("x", 2)},
	} {
		plan := func(*http.Request) (policy.Plan, error) { return policy.Limits(wrong...), nil }
		for _, policies := range [][]Policy{
			{{Name: "a", Limits: usual, Plan: plan}}, {{Name: "a", Limits: usual, Plan: plan}, {Name: "b", Limits: usual, Plan: right}},
			{{Name: "b", Limits: usual, Plan: right}, {Name: "a", Limits: usual, Plan: plan}},
		} {
			p := newPlay(t, Options{Policies: policies}, nil)
			if w := p.from("192.0.2.1"); w.Code != 500 || p.served > 0 {
				t.Errorf("%s, first of %s: got status %d, served %d; want 500, served 0", name, policies[0].Name, w.Code, p.served)
			}
			if e := p.last(); e.Err == nil || !e.Mistake || !e.Refused || e.Decision.Flags != 0 || e.Policy != "a" {
				t.Errorf("%s: got event %+v, want a refusal by a for a mistake, without flags", name, e)
			}
		}
	}
}

// A policy counts the same whether it is decided alone or with others, from one request to the next.
func TestAloneAndTogether(t *testing.T) {
	window := func(name string, quota int64) slidegate.Limit {
		limit := named(name, quota)
		limit.Algorithm = slidegate.SlidingWindow
		return limit
	}
	p := newPlay(t, Options{Policies: []Policy{
		{Name: "all", Limits: []slidegate.Limit{window("x", 4), window("y", 9)}}, {Name: "api", Match: "/api/", Limits: []slidegate.Limit{window("", 2)}},
	}}, nil)
	for i, step := range []struct {
		path     string
		status   int
		reported string
	}{
		{"/", 200, `"all/x";r=3;t=120, "all/y";r=8;t=120`},
		{"/api/", 200, `"all/x";r=2;t=120, "all/y";r=7;t=120, "api";r=1;t=120`},
		{"/api/", 200, `"all/x";r=1;t=120, "all/y";r=6;t=120, "api";r=0;t=90`},
		{"/api/", 429, `"all/x";r=1;t=120, "all/y";r=6;t=120, "api";r=0;t=90`}, // nothing is taken from the others
		{"/", 200, `"all/x";r=0;t=75, "all/y";r=5;t=120`},
		{"/", 429, `"all/x";r=0;t=75, "all/y";r=5;t=120`}, // 4 fall to 3 when a quarter of the next minute has passed
	} {
		w := p.do(httptest.NewRequest("GET", step.path, nil))
		if got := w.Header().Get("RateLimit"); w.Code != step.status || got != step.reported {
			t.Errorf("step %d: got status %d with RateLimit %s, want %d with %s", i, w.Code, got, step.status, step.reported)
		}
	}
}

// Plans are cached, each with its own limits, however many there are.
func TestManyPlans(t *testing.T) {
	var quota int64
	p := newPlay(t, Options{Policies: []Policy{{Name: "api", Limits: []slidegate.Limit{named("usual", 7)}, Plan: func(*http.Request) (policy.Plan, error) {
		return policy.Limits(named("", quota)), nil
	}}}}, nil)
	for range 2 {
		for quota = 1; quota <= 1100; quota++ {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = fmt.Sprintf("192.0.%d.%d:1", quota>>8, quota&255)
			if got, want := p.do(r).Header().Get("RateLimit-Policy"), fmt.Sprintf(`"api";q=%d;w=60`, quota); got != want {
				t.Fatalf("got RateLimit-Policy %s, want %s", got, want)
			}
		}
	}
}

// A plan's limit is cached by its own name: it is not confused with a limit whose name equals the name of another's counts.
func TestPlansOfSimilarNames(t *testing.T) {
	var name string
	p := newPlay(t, Options{Policies: []Policy{{Name: "api", Limits: []slidegate.Limit{named("usual", 7)}, Plan: func(*http.Request) (policy.Plan, error) {
		return policy.Limits(named(name, 5)), nil
	}}}}, nil)
	for _, step := range []struct{ name, reported string }{
		{"x", `"api/x";r=4;t=60`}, {"api/x", `"api/api/x";r=4;t=60`}, {"x", `"api/x";r=3;t=60`}, {"", `"api";r=4;t=60`},
	} {
		name = step.name
		if got := p.from("192.0.2.1").Header().Get("RateLimit"); got != step.reported {
			t.Errorf("%q: got RateLimit %s, want %s", step.name, got, step.reported)
		}
	}
}

// No cost is a way around the limit: a cost below 0 counts as 1, and a cost above all quotas is refused.
func TestCostOutOfRange(t *testing.T) {
	for _, test := range []struct {
		cost     int64
		statuses []int
	}{
		{-1, []int{200, 200, 429}}, {math.MinInt64, []int{200, 200, 429}}, {0, []int{200, 200, 200}}, {1, []int{200, 200, 429}},
		{2, []int{200, 429}}, {3, []int{429}}, {rule.MaxQuota, []int{429}}, {rule.MaxQuota + 1, []int{429}}, {math.MaxInt64, []int{429}},
	} {
		p := newPlay(t, Options{Policies: []Policy{{Cost: func(*http.Request) int64 { return test.cost }}}}, nil, slidegate.PerMinute(2))
		for i, want := range test.statuses {
			w := p.from("192.0.2.1")
			if w.Code != want || w.Header().Get("RateLimit") == "" {
				t.Errorf("cost %d, request %d: got status %d with %v, want %d with RateLimit", test.cost, i+1, w.Code, w.Header(), want)
			}
			if reported := len(p.events); reported != i+1 {
				t.Errorf("cost %d, request %d: got %d events, want one per request", test.cost, i+1, reported)
			}
			if never := w.Code == 429 && w.Header().Get("Retry-After") == ""; never != (test.cost > 2) {
				t.Errorf("cost %d, request %d: got status %d with %v, want a refusal without Retry-After exactly if the cost is above 2",
					test.cost, i+1, w.Code, w.Header())
			}
		}
	}
}

// A policy applies to every spelling of a path that http.ServeMux routes to the same handler.
func TestMatchesLikeServeMux(t *testing.T) {
	for _, test := range []struct {
		match, method, target string
		limited               bool
	}{
		{"POST /login", "POST", "/login", true},
		{"POST /login", "POST", "//login", true},
		{"POST /login", "POST", "/./login", true},
		{"POST /login", "POST", "/x/../login", true},
		{"POST /login", "POST", "/%6Cogin", true},
		{"POST /login", "POST", "/login?x=/other", true},
		{"POST /login", "POST", "http://elsewhere.example/login", true},
		{"POST /login", "POST", "/login/", false},
		{"POST /login", "POST", "/LOGIN", false},
		{"POST /login", "POST", "/login%2F", false},
		{"/admin/", "GET", "/admin%2Fx", true},
		{"/admin/", "GET", "/x/..%2Fadmin/", true},
		{"POST /login", "GET", "/login", false},
		{"GET /page", "HEAD", "/page", true},
		{"/api/", "PATCH", "/api/a/b", true},
		{"/api/", "GET", "/api", true}, // ServeMux redirects it there
		{"/api/", "CONNECT", "/api", true},
		{"CONNECT /api/", "CONNECT", "/api", true},
		{"/api/", "GET", "/apis", false},
		{"/api/", "GET", "/api/../other", false},
		{"/users/{id}/{$}", "GET", "/users/42/", true},
		{"/users/{id}/{$}", "GET", "/users/42/x", false},
		{"api.example/", "GET", "http://api.example:8080/x", true},
		{"api.example/", "GET", "http://www.example/x", false},
		{"api.example/", "GET", "http://API.Example/x", true},
		{"api.example/", "GET", "http://api.example.:8080/x", true},
		{"API.example./", "GET", "http://api.example/x", true},
	} {
		p := newPlay(t, Options{Policies: []Policy{{Match: test.match}}}, nil, slidegate.PerMinute(1))
		p.do(httptest.NewRequest(test.method, test.target, nil))
		if limited := len(p.events) == 1; limited != test.limited || p.served != 1 {
			t.Errorf("%q limits %s %s: got %v, served %d; want %v, served 1", test.match, test.method, test.target, limited, p.served, test.limited)
		}
	}
}

// Limits of one policy share its key and its cost, and CostAfter is called once for all of them.
func TestCostAfterIsCalledOncePerPolicy(t *testing.T) {
	calls := 0
	p := newPlay(t, Options{Policies: []Policy{
		{Name: "first", Key: Global(), Limits: []slidegate.Limit{named("", 100)}},
		{Name: "two", Limits: []slidegate.Limit{named("x", 100), named("y", 50)}, Cost: func(*http.Request) int64 { return 2 },
			CostAfter: func(_ *http.Request, response Response) int64 { calls++; return response.Cost + 5 }},
		{Name: "three", Limits: []slidegate.Limit{named("", 30)}, CostAfter: func(*http.Request, Response) int64 { return 0 }},
	}}, nil)
	p.from("192.0.2.1")
	if calls != 1 {
		t.Errorf("got %d calls of CostAfter, want 1", calls)
	}
	for key, want := range map[slidegate.Claim]int64{
		{Limit: named("first", 100), Key: ""}: 99, {Limit: named("two/x", 100), Key: "192.0.2.1"}: 93,
		{Limit: named("two/y", 50), Key: "192.0.2.1"}: 43, {Limit: named("three", 30), Key: "192.0.2.1"}: 30,
	} {
		d, err := p.limiter.For(key).Peek(t.Context())
		if err != nil || d.Remaining != want {
			t.Errorf("%s: got %d left and error %v, want %d and none", key.Limit.Name, d.Remaining, err, want)
		}
	}
}

// A refused request is not settled, since nothing was taken. Neither is an undecided one.
func TestNothingToSettle(t *testing.T) {
	calls := 0
	policies := []Policy{{Name: "api", Limits: []slidegate.Limit{named("", 1)}, CostAfter: func(*http.Request, Response) int64 { calls++; return 1 }}}
	p := newPlay(t, Options{Policies: policies}, nil)
	p.want(func() *httptest.ResponseRecorder { return p.from("192.0.2.1") }, 200, 429)
	if calls != 1 || len(p.events) != 2 {
		t.Errorf("got %d calls of CostAfter and %d events, want 1 and 2", calls, len(p.events))
	}
	open := (&play{t: t}).over(&broken{}, Options{Policies: policies, Failure: store.FailOpen}, nil)
	if w := open.from("192.0.2.1"); w.Code != 200 || calls != 1 || len(open.events) != 1 {
		t.Errorf("got status %d, %d calls of CostAfter and %d events; want 200, 1 and 1", w.Code, calls, len(open.events))
	}
}

// A request that the fallback admitted is settled with the fallback.
func TestSettleWithFallback(t *testing.T) {
	policies := []Policy{{Name: "api", Limits: []slidegate.Limit{named("", 10)}, CostAfter: CostOfBytes(1)}}
	p := (&play{t: t}).over(&broken{}, Options{Policies: policies, Failure: store.FailLocal},
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 4)) })
	p.from("192.0.2.1")
	if len(p.events) != 1 || !errors.Is(p.last().Err, errBroken) || p.last().Decision.Remaining != 9 {
		t.Errorf("got %d events, the last %+v; want 1, with errBroken and 9 remaining", len(p.events), p.last())
	}
	p.from("192.0.2.1")
	if got := p.last().Decision.Remaining; got != 5 {
		t.Errorf("got %d of 10 left after 4 bytes and with one unit taken, want 5", got)
	}
}

// A shadow policy charges the cost of its requests, and writes no headers.
func TestShadowAlone(t *testing.T) {
	for _, after := range []CostAfter{nil, CostOfBytes(1)} {
		p := newPlay(t, Options{Policies: []Policy{{Name: "tried", Shadow: true, CostAfter: after, Limits: []slidegate.Limit{named("", 1)}}}},
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a")) })
		for range 2 {
			if w := p.from("192.0.2.1"); w.Code != 200 || len(w.Header()) != 1 {
				t.Errorf("got status %d with %v, want 200 with a Content-Type and no other field", w.Code, w.Header())
			}
		}
		if e := p.last(); e.Decision.Allowed || !e.Shadow || e.Refused || e.Decision.RetryAfter != time.Minute {
			t.Errorf("got event %+v, want a refusal by a shadow, not refused, to retry after 1m", e)
		}
	}
}

// A shadow policy is charged by the response like a policy that decides.
func TestShadowIsSettled(t *testing.T) {
	tried := Policy{Name: "tried", Shadow: true, CostAfter: CostOfBytes(1), Limits: []slidegate.Limit{named("", 10)}}
	p := newPlay(t, Options{Policies: []Policy{tried}}, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 6)) })
	for i, allowed := range []bool{true, true, false} {
		p.events = nil
		p.from("192.0.2.1")
		if e := p.events[0]; !e.Shadow || e.Decision.Allowed != allowed {
			t.Errorf("request %d: got event %+v, want allowed %v", i, e, allowed)
		}
	}
}

func TestCostOfBytes(t *testing.T) {
	for _, test := range []struct{ bytes, per, want int64 }{
		{0, 1, 0}, {1, 1, 1}, {999, 1000, 1}, {1000, 1000, 1}, {1001, 1000, 2}, {5, math.MaxInt64, 1}, {math.MaxInt64, 2, 1 << 62},
	} {
		if got := CostOfBytes(test.per)(nil, Response{Bytes: test.bytes}); got != test.want {
			t.Errorf("%d bytes by %d: got cost %d, want %d", test.bytes, test.per, got, test.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("CostOfBytes(0) is accepted, want a panic")
		}
	}()
	CostOfBytes(0)
}
