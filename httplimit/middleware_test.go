package httplimit

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

func TestLimitsByAddress(t *testing.T) {
	p := newPlay(t, Options{}, nil, slidegate.PerMinute(2))
	p.want(func() *httptest.ResponseRecorder { return p.from("192.0.2.1") }, 200, 200, 429, 429)
	p.want(func() *httptest.ResponseRecorder { return p.from("192.0.2.2") }, 200, 200, 429)
	if p.served != 4 {
		t.Errorf("got %d requests served, want the 4 admitted", p.served)
	}
}

// A policy applies only to the requests that match it.
func TestMatch(t *testing.T) {
	p := newPlay(t, Options{Policies: []Policy{{Name: "shorten", Match: "POST /shorten", Limits: []slidegate.Limit{slidegate.PerMinute(1)}}}}, nil)
	post := func() *httptest.ResponseRecorder { return p.do(httptest.NewRequest("POST", "/shorten", nil)) }
	get := func() *httptest.ResponseRecorder { return p.do(httptest.NewRequest("GET", "/abc", nil)) }
	p.want(post, 200, 429)
	p.want(get, 200, 200, 200)
	if w := get(); w.Header().Get("RateLimit") != "" {
		t.Errorf("got RateLimit %q for a request that matches no policy, want none", w.Header().Get("RateLimit"))
	}
}

// Of several policies, all are charged or none is.
func TestAllOrNone(t *testing.T) {
	p := newPlay(t, Options{Policies: []Policy{
		{Name: "user", Key: ByHeader("X-User"), Limits: []slidegate.Limit{slidegate.PerMinute(2)}},
		{Name: "all", Key: Global(), Limits: []slidegate.Limit{slidegate.PerMinute(3)}},
	}}, nil)
	as := func(user string) func() *httptest.ResponseRecorder {
		return func() *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-User", user)
			return p.do(r)
		}
	}
	p.want(as("ann"), 200, 200, 429, 429, 429)
	if e := p.last(); e.Policy != "user" || !e.Refused {
		t.Errorf("got event %+v, want a refusal by the policy user", e)
	}
	p.want(as("bob"), 200, 429) // the refusals of ann took nothing from the policy everybody
	if e := p.last(); e.Policy != "all" {
		t.Errorf("got policy %q, want all", e.Policy)
	}
}

func TestPlans(t *testing.T) {
	plans := map[string]slidegate.Limit{"free": slidegate.PerMinute(1), "paid": slidegate.PerMinute(3)}
	p := newPlay(t, Options{Policies: []Policy{{
		Name: "api", Key: ByHeader("X-User"),
		Plan: func(r *http.Request) (policy.Plan, error) {
			if limit, ok := plans[r.Header.Get("X-Plan")]; ok {
				return policy.Limits(limit), nil
			}
			return policy.Plan{}, nil
		},
		Limits: []slidegate.Limit{slidegate.PerMinute(2)},
	}}}, nil)
	with := func(plan string) func() *httptest.ResponseRecorder {
		return func() *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-User", "ann")
			r.Header.Set("X-Plan", plan)
			return p.do(r)
		}
	}
	p.want(with("free"), 200, 429)
	p.want(with(""), 200, 429)     // the default limits, with the usage under the other plan
	p.want(with("paid"), 200, 429) // upgraded: one unit more
}

func TestCostAndSkip(t *testing.T) {
	p := newPlay(t, Options{Policies: []Policy{{
		Cost: func(r *http.Request) int64 { return r.ContentLength },
		Skip: func(r *http.Request) bool { return r.URL.Path == "/health" },
	}}}, nil, slidegate.PerMinute(10))
	send := func(path, body string) int {
		return p.do(httptest.NewRequest("POST", path, strings.NewReader(body))).Code
	}
	for i, step := range []struct {
		path, body string
		status     int
	}{{"/", "1234567", 200}, {"/", "1234", 429}, {"/", "123", 200}, {"/", "1", 429}, {"/health", "12345678901", 200}, {"/", "", 429}} {
		if got := send(step.path, step.body); got != step.status {
			t.Errorf("step %d: got status %d, want %d", i, got, step.status)
		}
	}
	w := p.do(httptest.NewRequest("POST", "/", strings.NewReader("12345678901"))) // more than the quota
	if w.Code != 429 || w.Header().Get("Retry-After") != "" {
		t.Errorf("got status %d with Retry-After %q for a request that is never admitted, want 429 without", w.Code, w.Header().Get("Retry-After"))
	}
}

// A policy may have only a Skip.
func TestSkipAlone(t *testing.T) {
	p := newPlay(t, Options{Policies: []Policy{{Skip: func(r *http.Request) bool { return r.URL.Path == "/health" }}}}, nil, slidegate.PerMinute(1))
	for i, step := range []struct {
		path   string
		status int
	}{{"/health", 200}, {"/health", 200}, {"/", 200}, {"/", 429}, {"/health", 200}} {
		if got := p.do(httptest.NewRequest("GET", step.path, nil)).Code; got != step.status {
			t.Errorf("step %d: got status %d, want %d", i, got, step.status)
		}
	}
}

// A shadow policy decides and reports, and refuses nothing.
func TestShadow(t *testing.T) {
	p := newPlay(t, Options{Policies: []Policy{
		{Name: "tried", Shadow: true, Limits: []slidegate.Limit{slidegate.PerMinute(1)}},
		{Name: "live", Limits: []slidegate.Limit{slidegate.PerMinute(3)}},
	}}, nil)
	p.want(func() *httptest.ResponseRecorder { return p.from("192.0.2.1") }, 200, 200, 200, 429)
	var tried, refused int
	for _, e := range p.events {
		if e.Shadow {
			tried++
			if !e.Decision.Allowed {
				refused++
			}
			if e.Refused || e.Policy != "tried" {
				t.Errorf("got shadow event %+v, want the policy tried and no refusal", e)
			}
		}
	}
	if tried != 4 || refused != 3 {
		t.Errorf("got %d tried and %d refused, want 4 and 3", tried, refused)
	}
}

func TestStoreFails(t *testing.T) {
	for _, alone := range []bool{true, false} {
		policies := everyRequest(alone, Policy{Name: "api", Limits: []slidegate.Limit{slidegate.PerMinute(1)}})
		for _, test := range []struct {
			name     string
			opts     Options
			statuses []int
			flags    rule.Flags
		}{
			{"default", Options{}, []int{200, 429}, rule.FallbackLocal},
			{"open", Options{Failure: store.FailOpen}, []int{200, 200}, rule.FallbackOpen},
			{"closed", Options{Failure: store.FailClosed}, []int{503, 503}, rule.FallbackClosed},
			{"local", Options{Failure: store.FailLocal}, []int{200, 429}, rule.FallbackLocal},
		} {
			t.Run(test.name, func(t *testing.T) {
				test.opts.Policies = policies
				store := &broken{}
				p := (&play{t: t}).over(store, test.opts, nil)
				p.want(func() *httptest.ResponseRecorder { return p.from("192.0.2.1") }, test.statuses...)
				if e := p.last(); e.Err == nil || e.Decision.Flags != test.flags || e.Refused != (test.statuses[1] != 200) {
					t.Errorf("got event %+v, want an error, the flags %v and refused %v", e, test.flags, test.statuses[1] != 200)
				}
				if store.requests != len(test.statuses) {
					t.Errorf("the failing store was called %d times, want once for each of %d requests", store.requests, len(test.statuses))
				}
			})
		}
	}
}

// localLimiter is a limiter in process.
func localLimiter(t *testing.T) *slidegate.Limiter {
	store := testkit.Must(memstore.New(memstore.Options{Now: func() rule.Micros { return noon }}))(t)
	return testkit.Must(slidegate.New(store))(t)
}

func TestWrongOptions(t *testing.T) {
	limiter := newPlay(t, Options{}, nil, slidegate.PerMinute(1)).limiter
	none := localLimiter(t)
	for _, test := range []struct {
		limiter *slidegate.Limiter
		opts    Options
		want    string
	}{
		{nil, Options{}, "limiter: must not be nil"},
		{none, Options{}, "no limits"},
		{limiter, Options{Headers: 99}, "headers: unknown Headers 99"},
		{limiter, Options{Headers: HeadersNone + 1}, "headers: unknown Headers 5"},
		{limiter, Options{Body: 99}, "unknown Body 99"},
		{limiter, Options{Body: BodyNone + 1}, "unknown Body 4"},
		{limiter, Options{Failure: 99}, "Failure: unknown mode 99"},
		{limiter, Options{LocalBytes: -1}, "LocalBytes: must be positive, or 0 for the default, not -1"},
		{limiter, Options{Policies: []Policy{{Failure: 99}}}, "failure: unknown mode 99"},
		{limiter, Options{Policies: []Policy{{Name: "a"}, {}}}, "name: missing"},
		{limiter, Options{Policies: []Policy{{Name: "a"}, {Name: "a"}}}, `duplicate "a"`},
		{limiter, Options{Policies: []Policy{{Match: "GET /{"}}}, "match"},
		{limiter, Options{Policies: []Policy{{Name: "é"}}}, "printable ASCII"},
		{limiter, Options{Policies: []Policy{{Limits: []slidegate.Limit{{}}}}}, "invalid limit"},
		{limiter, Options{Policies: []Policy{{Name: "a", Match: "POST /login", Limits: []slidegate.Limit{slidegate.PerMinute(5)}}}},
			"no policy uses the limiter's own limits"},
		{limiter, Options{Policies: []Policy{{Name: "a", Plans: []policy.Plan{{Name: "pro", Limits: []slidegate.Limit{slidegate.PerMinute(5)}}}}}},
			`policy "a": plans: need a Plan`},
	} {
		_, err := New(test.limiter, test.opts)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "httplimit: ") {
			t.Errorf("got error %v, want one of httplimit that contains %q", err, test.want)
		}
	}
}

// The application writes the response to a refusal.
func TestRefuse(t *testing.T) {
	p := newPlay(t, Options{Refuse: func(w http.ResponseWriter, _ *http.Request, e Event) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte(e.Decision.LimitName))
	}}, nil, slidegate.PerMinute(1))
	p.from("192.0.2.1")
	w := p.from("192.0.2.1")
	if w.Code != http.StatusTeapot || w.Body.String() != "1/1m" || w.Header().Get("Retry-After") == "" || w.Header().Get("RateLimit") == "" {
		t.Errorf("got %d %q with %v; want 418 %q with Retry-After and RateLimit", w.Code, w.Body, w.Header(), "1/1m")
	}
}
