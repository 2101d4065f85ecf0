package httplimit

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// An administrator sees and resets exactly the usage under a policy, by its name and the client's key.
func TestPeekAndReset(t *testing.T) {
	one := func(text string) []slidegate.Limit { return []slidegate.Limit{slidegate.MustParseLimit(text)} }
	user := ByHeader("X-User")
	plans := func(*http.Request) (policy.Plan, error) {
		return policy.Limits(slidegate.MustParseLimit("2/1h name=gold")), nil
	}
	for _, test := range []struct {
		name      string
		opts      Options
		limit     string // the limiter's own
		reset     string // the policy,
		key       string // and the key
		byRequest bool   // the key alone does not determine what is limited
	}{
		{"the zero policy", Options{}, "2/1m", "", "192.0.2.1", false},
		{"a named limit", Options{}, "2/1m name=api", "", "192.0.2.1", false},
		{"a named policy", Options{Policies: []Policy{{Name: "api", Key: user}}}, "2/1m", "api", "ann", false},
		{"a named limit in a named policy", Options{Policies: []Policy{{Name: "api", Key: user, Limits: one("2/1h name=hour")}}}, "", "api", "ann", false},
		{"one of several", Options{Policies: []Policy{
			{Name: "all", Key: Global(), Limits: one("100/1m")}, {Name: "api", Key: user, Limits: one("2/1h")},
		}}, "", "api", "ann", false},
		{"the first of several keys", Options{Policies: []Policy{{Name: "api", Key: FirstOf(ByCookie("sid"), user)}}}, "2/1m", "api", "header:X-User:ann", false},
		{"an override", Options{Policies: []Policy{{Name: "api", Key: user, Overrides: []policy.Override{
			{Key: "a*", Pattern: true, Limits: one("2/1h name=few")}}}}}, "100/1m", "api", "ann", false},
		{"an override and a plan", Options{Policies: []Policy{{Name: "api", Key: user, Plan: plans, Overrides: []policy.Override{
			{Key: "ann", Limits: one("2/1h name=few")}}}}}, "100/1m", "api", "ann", false},
		{"a plan", Options{Policies: []Policy{{Name: "api", Key: user, Plan: plans}}}, "100/1m", "api", "ann", true},
		{"settled afterwards", Options{Policies: []Policy{{Name: "api", Key: user, CostAfter: CostFromHandler()}}}, "2/1m", "api", "ann", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var own []slidegate.Limit
			if test.limit != "" {
				own = one(test.limit)
			}
			p := newPlay(t, test.opts, nil, own...)
			send := func() int { return p.do(request("X-User: ann")).Code }
			if got := []int{send(), send(), send()}; got[0] != 200 || got[1] != 200 || got[2] != 429 {
				t.Fatalf("got statuses %d, want 200 200 429", got)
			}
			peek := func(remaining int64) {
				t.Helper()
				for range 2 { // it charges nothing
					event, err := p.limits.Peek(t.Context(), test.reset, test.key)
					if test.byRequest {
						if !errors.Is(err, slidegate.ErrUnsupported) || !strings.Contains(err.Error(), "PeekRequest") {
							t.Errorf("Peek returned %v, want an error that names PeekRequest", err)
						}
					} else if err != nil || event.Decision.Remaining != remaining || event.Refused != (remaining == 0) {
						t.Errorf("Peek returned %+v, %v; want %d remaining", event, err, remaining)
					}
					event, err = p.limits.PeekRequest(request("X-User: ann"))
					if err != nil || event.Decision.Remaining != remaining || event.Refused != (remaining == 0) {
						t.Errorf("PeekRequest returned %+v, %v; want %d remaining", event, err, remaining)
					}
				}
			}
			peek(0)
			if err := p.limits.Reset(t.Context(), test.reset, test.key); err != nil {
				t.Fatal(err)
			}
			peek(2)
			send()
			peek(1)
			if err := p.limits.ResetRequest(request("X-User: ann")); err != nil {
				t.Fatal(err)
			}
			peek(2)
		})
	}
}

// No other client is reset.
func TestResetIsOfOneKey(t *testing.T) {
	p := newPlay(t, Options{Policies: []Policy{{Name: "api", Key: ByHeader("X-User")}}}, nil, slidegate.PerMinute(1))
	p.do(request("X-User: ann"))
	p.do(request("X-User: bob"))
	if err := p.limits.Reset(t.Context(), "api", "ann"); err != nil {
		t.Fatal(err)
	}
	if ann, bob := p.do(request("X-User: ann")).Code, p.do(request("X-User: bob")).Code; ann != 200 || bob != 429 {
		t.Errorf("got %d for ann and %d for bob, want 200 and 429", ann, bob)
	}
}

// The group is part of the address, so only a request determines it.
func TestPeekAndResetInAGroup(t *testing.T) {
	tenant := func(r *http.Request) string { return r.Header.Get("X-Tenant") }
	p := newPlay(t, Options{Group: tenant}, nil, slidegate.PerMinute(1))
	p.do(request("X-Tenant: acme"))
	if _, err := p.limits.Peek(t.Context(), "", "192.0.2.1"); !errors.Is(err, slidegate.ErrUnsupported) {
		t.Errorf("Peek returned %v, want ErrUnsupported", err)
	}
	if err := p.limits.Reset(t.Context(), "", "192.0.2.1"); !errors.Is(err, slidegate.ErrUnsupported) {
		t.Errorf("Reset returned %v, want ErrUnsupported", err)
	}
	if err := p.limits.ResetRequest(request("X-Tenant: acme")); err != nil {
		t.Error(err)
	}
	if event, err := p.limits.PeekRequest(request("X-Tenant: acme")); err != nil || event.Decision.Remaining != 1 {
		t.Errorf("PeekRequest returned %+v, %v; want 1 remaining", event, err)
	}
}

// An unknown policy or request is an error.
func TestPeekAndResetOfNothing(t *testing.T) {
	several := newPlay(t, Options{Policies: []Policy{
		{Name: "api", Match: "/api/", Limits: []slidegate.Limit{slidegate.PerMinute(1)}},
		{Name: "login", Match: "/login", Limits: []slidegate.Limit{slidegate.PerMinute(1)}},
	}}, nil)
	only := newPlay(t, Options{}, nil, slidegate.PerMinute(1))
	for _, test := range []struct {
		play *play
		name string
		want string
	}{
		{several, "apii", `httplimit: policy: unknown policy "apii"; want one of ["api" "login"]`},
		{several, "", `unknown policy ""; want one of ["api" "login"]`},
		{only, "api", `unknown policy "api"; the only one has no name, use ""`},
	} {
		_, err := test.play.limits.Peek(t.Context(), test.name, "ann")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Peek of %q returned %v, want %s", test.name, err, test.want)
		}
		if err := test.play.limits.Reset(t.Context(), test.name, "ann"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Reset of %q returned %v, want %s", test.name, err, test.want)
		}
	}
	elsewhere := request("X-User: ann")
	elsewhere.URL.Path = "/elsewhere"
	if _, err := several.limits.PeekRequest(elsewhere); err == nil {
		t.Error("PeekRequest of a request without a policy returned no error")
	}
	if err := several.limits.ResetRequest(elsewhere); err == nil {
		t.Error("ResetRequest of a request without a policy returned no error")
	}
}

// A store that does not answer is an error, whatever the failure mode.
func TestPeekAndResetDuringAnOutage(t *testing.T) {
	for _, mode := range []store.Mode{store.FailOpen, store.FailClosed, store.FailLocal} {
		p := (&play{t: t}).over(newHookStore(t, func(context.Context, *store.Request) error { return errBroken }), Options{Failure: mode}, nil, slidegate.PerMinute(1))
		if event, err := p.limits.Peek(t.Context(), "", "192.0.2.1"); err == nil {
			t.Errorf("%v: Peek returned %+v, want an error", mode, event)
		}
		if err := p.limits.Reset(t.Context(), "", "192.0.2.1"); err == nil {
			t.Errorf("%v: Reset returned no error", mode)
		}
	}
}

// Peek reports that a client is on a list.
func TestPeekOfAListedClient(t *testing.T) {
	memory := testkit.Must(memstore.New(memstore.Options{}))(t)
	m := testkit.Must(New(testkit.Must(slidegate.New(memory, slidegate.PerMinute(1)))(t), Options{Policies: []Policy{{
		Name: "api", Key: ByHeader("X-User"), Allow: policy.List{Keys: []string{"vip"}}, Block: policy.List{Keys: []string{"bad"}},
	}}}))(t)
	for key, want := range map[string]policy.By{"vip": policy.ByAllowList, "bad": policy.ByBlockList, "ann": policy.ByLimits} {
		if event, err := m.Peek(t.Context(), "api", key); err != nil || event.By != want {
			t.Errorf("%s: decided by %v, %v; want %v", key, event.By, err, want)
		}
	}
}

// No client has the empty key where clients without a name are counted by address: Peek would report a whole quota.
func TestAdminOfEmptyKey(t *testing.T) {
	one := []slidegate.Limit{slidegate.PerMinute(1)}
	for _, shared := range []bool{false, true} {
		p := newPlay(t, Options{Policies: []Policy{{Name: "a", Key: ByHeader("X-User"), ShareEmptyKey: shared, Limits: one}}}, nil)
		p.serveFrom("203.0.113.7:1", "")
		event, err := p.limits.Peek(t.Context(), "a", "")
		if shared != (err == nil) || shared && event.Decision.Remaining != 0 {
			t.Errorf("shared is %t: Peek returned %d units, %v", shared, event.Decision.Remaining, err)
		}
		if err := p.limits.Reset(t.Context(), "a", ""); shared != (err == nil) {
			t.Errorf("shared is %t: Reset returned %v", shared, err)
		}
	}
}
