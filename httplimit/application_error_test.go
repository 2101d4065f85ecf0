package httplimit

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

var errDatabase = errors.New("the database is down")

func newRequestFrom(address string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = address + ":1234"
	return r
}

// A request whose plan cannot be found is refused in every failure mode, charged nothing, and the event has the error.
func TestPlanFails(t *testing.T) {
	for name, given := range map[string]func(Policy) []Policy{
		"alone": func(p Policy) []Policy { return []Policy{p} },
		"together": func(p Policy) []Policy {
			return []Policy{{Name: "other", Limits: []slidegate.Limit{named("other", 100)}}, p}
		},
		"settled": func(p Policy) []Policy { p.CostAfter = CostFromHandler(); return []Policy{p} },
	} {
		for _, mode := range []store.Mode{store.FailOpen, store.FailLocal, store.FailClosed} {
			fails := true
			p := newPlay(t, Options{Failure: mode, Policies: given(Policy{
				Name: "api", Limits: []slidegate.Limit{named("free", 2)}, Plan: func(*http.Request) (policy.Plan, error) {
					if fails {
						return policy.Plan{}, errDatabase
					}
					return policy.Limits(named("free", 5)), nil
				},
			})}, nil)
			p.want(func() *httptest.ResponseRecorder { return p.from("192.0.2.1") }, 503, 503, 503)
			if e := p.last(); !errors.Is(e.Err, errDatabase) || e.Policy != "api" || !e.Refused || e.Mistake || e.Decision.Flags != rule.FallbackClosed || p.served != 0 {
				t.Errorf("%s, %v: got %+v, want the database's error for the policy api", name, mode, e)
			}
			fails = false
			p.want(func() *httptest.ResponseRecorder { return p.from("192.0.2.1") }, 200, 200, 200, 200, 200, 429)
			if _, err := p.limits.PeekRequest(newRequestFrom("192.0.2.1")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			fails = true
			if _, err := p.limits.PeekRequest(newRequestFrom("192.0.2.1")); !errors.Is(err, errDatabase) {
				t.Errorf("%s: a peek without a plan: %v, want the database's error", name, err)
			}
		}
	}
}

// A request whose key cannot be found is refused too, and not counted by its address, whichever key fails of several.
func TestKeyFails(t *testing.T) {
	fails := KeyFunc(func(r *http.Request) (string, error) {
		if r.Header.Get("X-User") == "" {
			return "", errDatabase
		}
		return r.Header.Get("X-User"), nil
	})
	for name, key := range map[string]Key{"alone": fails, "all of": AllOf(ByAddress(nil), fails), "first of": FirstOf(ByHeader("X-Missing"), fails, ByAddress(nil))} {
		for _, after := range []CostAfter{nil, CostFromHandler()} {
			p := newPlay(t, Options{Policies: []Policy{{Name: "api", Key: key, CostAfter: after}}}, nil, slidegate.PerMinute(1))
			p.want(func() *httptest.ResponseRecorder { return p.from("192.0.2.1") }, 503, 503)
			if e := p.last(); !errors.Is(e.Err, errDatabase) || e.Policy != "api" || !e.Refused || p.served != 0 {
				t.Errorf("%s: got %+v, want the database's error", name, e)
			}
			p.want(func() *httptest.ResponseRecorder {
				r := newRequestFrom("192.0.2.1")
				r.Header.Set("X-User", "ann")
				return p.do(r)
			}, 200, 429)
		}
	}
	transport, err := NewTransport(nil, TransportOptions{Key: fails})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport.RoundTrip(newRequestFrom("192.0.2.1")); !errors.Is(err, errDatabase) {
		t.Errorf("a transport: %v, want the database's error", err)
	}
}

// A shadow policy refuses nothing, also if its plan cannot be found.
func TestPlanOfShadowFails(t *testing.T) {
	p := newPlay(t, Options{Policies: []Policy{{Shadow: true, Plan: func(*http.Request) (policy.Plan, error) { return policy.Plan{}, errDatabase }}}},
		nil, slidegate.PerMinute(1))
	if w := p.from("192.0.2.1"); w.Code != 200 || !errors.Is(p.last().Err, errDatabase) {
		t.Errorf("got status %d and %+v, want 200 and the error", w.Code, p.last())
	}
}

// Every policy that decides has its own event, with its own plan, limits and decision. Of a refused request, only those that
// refused it have one.
func TestEventForEachPolicy(t *testing.T) {
	type seen struct {
		Plan      string
		Remaining int64
		Refused   bool
		Limits    int
	}
	cost := int64(1)
	p := newPlay(t, Options{Policies: []Policy{
		{Name: "user", Limits: []slidegate.Limit{named("a", 3), named("b", 20)}, Key: ByHeader("X-User")},
		{
			Name: "org", Limits: []slidegate.Limit{named("", 5)}, Key: ByHeader("X-Org"), Cost: func(*http.Request) int64 { return cost },
			Plans: []policy.Plan{{Name: "pro", Limits: []slidegate.Limit{named("", 50)}}},
			Plan:  func(*http.Request) (policy.Plan, error) { return policy.Named("pro"), nil },
		},
		{Name: "address", Limits: []slidegate.Limit{named("", 9)}, Allow: policy.List{Keys: []string{"192.0.2.1"}}},
	}}, nil)
	expect := func(step string, want map[string]seen) {
		t.Helper()
		got := map[string]seen{}
		for _, e := range p.events {
			if _, twice := got[e.Policy]; twice || e.Err != nil {
				t.Errorf("%s: %+v is the second event of its policy, or has an error", step, e)
			}
			got[e.Policy] = seen{e.Plan, e.Decision.Remaining, e.Refused, len(e.Limits)}
		}
		p.events = nil
		if len(got) != len(want) {
			t.Errorf("%s: got %+v, want %+v", step, got, want)
		}
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("%s, %s: got %+v, want %+v", step, name, got[name], want[name])
			}
		}
	}
	send := func() {
		r := newRequestFrom("192.0.2.1")
		r.Header.Set("X-User", "ann")
		r.Header.Set("X-Org", "acme")
		p.do(r)
	}
	send()
	expect("admitted", map[string]seen{"user": {"", 2, false, 2}, "org": {"pro", 49, false, 1}, "address": {}})
	cost = 60
	send()
	expect("refused by the org", map[string]seen{"org": {"pro", 49, true, 1}})
	cost = 1
	send()
	send()
	p.events = nil
	send()
	expect("refused by the user", map[string]seen{"user": {"", 0, true, 2}})
}

// A refusal says what is true: some of the quota may be left, and a plan is not a list.
func TestRefusalsAreTrue(t *testing.T) {
	cost, plan := int64(1), policy.Plan{}
	p := newPlay(t, Options{Body: BodyText, Policies: []Policy{{
		Cost: func(*http.Request) int64 { return cost }, Plan: func(*http.Request) (policy.Plan, error) { return plan, nil },
	}}}, nil, slidegate.PerMinute(10))
	p.from("192.0.2.1")
	cost = 10
	if w := p.from("192.0.2.1"); w.Body.String() != "The request costs more than is left of the quota. Try again in 60 seconds.\n" {
		t.Errorf("9 of 10 are left: got %q", w.Body)
	}
	plan = policy.Refused()
	if w := p.from("192.0.2.1"); w.Code != 403 || w.Body.String() != "The client is refused access.\n" {
		t.Errorf("a plan that admits nothing: got %d %q", w.Code, w.Body)
	}
}
