package gate_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// request returns a request from 203.0.113.9, unless a header says otherwise and the gate trusts it.
func request(method, target string, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = "203.0.113.9:1234"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func matching(name, match, key string, texts ...string) config.Policy {
	p := policyOf(name, texts...)
	p.Match, p.Key = config.Routes(match), template(key)
	return p
}

// check returns the decision on a request.
func check(t *testing.T, g *gate.Gate, r *http.Request) policy.Decision {
	t.Helper()
	v, err := g.CheckRequest(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAllMatchingPoliciesDecide(t *testing.T) {
	store := &recordingStore{Store: memory(t, newClock())}
	m, provider := newMeasured()
	g := newGate(t, store, gate.Options{MeterProvider: provider},
		matching("login", "POST /login", "{address}", "2/1h"),
		matching("site", "/", "{host}", "4/1h name=short", "100/1d name=long"))
	for i := range 3 {
		v := check(t, g, request("POST", "http://a.example/login"))
		if v.Decision.Allowed != (i < 2) || v.Policy != "login" || len(v.Limits) != 3 || len(v.Decision.Answers) != 3 {
			t.Errorf("login %d: got %+v, want allowed %v by login, with 3 limits and 3 answers", i, v, i < 2)
		}
	}
	if got := store.applies.Load(); got != 3 {
		t.Errorf("3 requests over two policies: got %d calls, want 3", got)
	}
	// The third was refused by login, so site must not have been charged for it.
	v := check(t, g, request("GET", "http://a.example/other"))
	if !v.Decision.Allowed || v.Policy != "site" || v.Decision.Remaining != 1 || v.Decision.LimitName != "short" {
		t.Errorf("site after two logins: got %+v, want allowed by site, with 1 remaining of short", v)
	}
	check(t, g, request("GET", "http://A.example//other")) // the same host
	v = check(t, g, request("POST", "http://a.example/login"))
	if v.Decision.Allowed || v.Policy == "" || !v.Refused {
		t.Errorf("both block: got %+v, want a refusal that names a policy", v)
	}
	want := map[string]int64{
		"policy.decisions{by=limits,outcome=admitted,policy=login}": 2,
		"policy.decisions{by=limits,outcome=refused,policy=login}":  2,
		"policy.decisions{by=limits,outcome=admitted,policy=site}":  4,
		"policy.decisions{by=limits,outcome=refused,policy=site}":   1,
		"policies{}": 2,
	}
	if got := m.read(t); !maps.Equal(got, want) {
		t.Errorf("metrics\n%v, want\n%v", got, want)
	}
}

func TestNothingMatches(t *testing.T) {
	g := newGate(t, memory(t, newClock()), gate.Options{}, matching("login", "POST /login", "{address}", "1/1h"))
	if v := check(t, g, request("GET", "/login")); !v.Decision.Allowed || v.Policy != "" || v.By != policy.ByUnlimited {
		t.Errorf("without a policy: got %+v, want allowed by policy.ByUnlimited", v)
	}
}

// TestShadowPoliciesDecideSeparately: a policy in shadow mode that refuses does not keep the others from deciding and
// charging, and one that would admit is charged even if another refuses.
func TestShadowPoliciesDecideSeparately(t *testing.T) {
	store := &recordingStore{Store: memory(t, newClock())}
	watching := matching("watching", "", "{address}", "1/1h")
	watching.Shadow = true
	real := matching("real", "", "{address}", "2/1h")
	m, provider := newMeasured()
	g := newGate(t, store, gate.Options{MeterProvider: provider}, watching, real)
	for i := range 3 {
		v := check(t, g, request("GET", "/"))
		if v.Decision.Allowed != (i < 2) || v.Policy != "real" || v.Shadow || v.Decision.Quota != 2 {
			t.Errorf("request %d: got %+v, want allowed %v by real with the quota 2, no shadow", i, v, i < 2)
		}
	}
	if got := store.applies.Load(); got != 3 {
		t.Errorf("%d calls to the store, want 3 for 3 requests with a shadow", got)
	}
	want := map[string]int64{
		"policy.decisions{by=limits,outcome=admitted,policy=real}":           2,
		"policy.decisions{by=limits,outcome=refused,policy=real}":            1,
		"policy.decisions{by=limits,outcome=admitted,policy=watching}":       1,
		"policy.decisions{by=limits,outcome=shadow_refused,policy=watching}": 2,
		"policies{}": 2,
	}
	if got := m.read(t); !maps.Equal(got, want) {
		t.Errorf("metrics\n%v, want\n%v", got, want)
	}
	store.fail("watching") // errors of policies in shadow mode are ignored
	if v := check(t, g, request("GET", "/", "X", "y")); v.Policy != "real" {
		t.Errorf("got %+v, want a decision by real", v)
	}
}

func TestOnlyShadowPolicies(t *testing.T) {
	store := &recordingStore{Store: memory(t, newClock())}
	first, second := matching("first", "", "{address}", "9/1h"), matching("second", "", "{address}", "1/1h")
	first.Shadow, second.Shadow = true, true
	for _, policies := range [][]config.Policy{{first, second}, {second}} {
		g := newGate(t, store, gate.Options{}, policies...)
		check(t, g, request("GET", "/"))
		if v := check(t, g, request("GET", "/")); !v.Decision.Allowed || !v.Shadow || !v.Refused || v.Policy != "second" {
			t.Errorf("%d policies: got %+v, want allowed by the shadow second, which would refuse", len(policies), v)
		}
		store.fail("s")
		if v := check(t, g, request("GET", "/")); !v.Decision.Allowed || !v.Shadow || v.Refused {
			t.Errorf("with a failing store: got %+v, want allowed by a shadow, not refused", v)
		}
		store.failing.Store(nil)
	}
}

func TestListsOfSeveralPolicies(t *testing.T) {
	store := &recordingStore{Store: memory(t, newClock())}
	here := policy.List{Addresses: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}
	off, on := matching("off", "", "{address}", "1/1h"), matching("on", "", "{address}", "1/1h")
	off.Allow = here
	g := newGate(t, store, gate.Options{}, off, on)
	check(t, g, request("GET", "/"))
	if v := check(t, g, request("GET", "/")); v.Decision.Allowed || v.Policy != "on" || len(v.Limits) != 1 {
		t.Errorf("one policy exempts the client, the other has limits: got %+v, want a refusal by the one limit of on", v)
	}
	on.Allow = here
	g = newGate(t, store, gate.Options{}, off, on)
	if v := check(t, g, request("GET", "/")); !v.Decision.Allowed || v.By != policy.ByAllowList {
		t.Errorf("both policies exempt the client: got %+v, want allowed by policy.ByAllowList", v)
	}
	on.Block = here
	g = newGate(t, store, gate.Options{}, off, on)
	before := store.applies.Load()
	if v := check(t, g, request("GET", "/")); v.Decision.Allowed || v.By != policy.ByBlockList || v.Policy != "on" || v.Decision.RetryAfter != slidegate.Never {
		t.Errorf("one policy refuses the client: got %+v, want a refusal forever by on's block list", v)
	}
	on.Shadow = true
	g = newGate(t, store, gate.Options{}, off, on)
	if v := check(t, g, request("GET", "/")); !v.Decision.Allowed || v.By != policy.ByBlockList || !v.Shadow || !v.Refused {
		t.Errorf("a shadow would refuse the client: got %+v, want allowed, and refused by the shadow's block list", v)
	}
	if store.applies.Load() != before {
		t.Error("the store was called for a client on the block list, want no call")
	}
	third := matching("third", "", "{method}", "1/1h") // decides, whatever a shadow policy would do
	g = newGate(t, store, gate.Options{}, on, third)
	check(t, g, request("GET", "/"))
	if v := check(t, g, request("GET", "/")); v.Decision.Allowed || v.Policy != "third" || v.By != policy.ByLimits {
		t.Errorf("a shadow would refuse the client, another policy has limits: got %+v, want a refusal by the limits of third", v)
	}
}

// flagOf has the flag of each failure mode.
var flagOf = map[store.Mode]rule.Flags{
	store.FailOpen: rule.FallbackOpen, store.FailLocal: rule.FallbackLocal, store.FailClosed: rule.FallbackClosed,
}

func TestStrictestFailureMode(t *testing.T) {
	down := memory(t, newClock())
	st := failure.New(downStore{down}, failure.Options{Local: down})
	t.Cleanup(st.Close)
	const open, local, closed = store.FailOpen, store.FailLocal, store.FailClosed
	for _, c := range []struct{ first, second, want store.Mode }{
		{open, closed, closed}, {local, closed, closed}, {local, open, local}, {open, open, open}, {0, local, closed},
	} {
		first, second := matching("first", "", "{address}", "1/1h"), matching("second", "", "{address}", "1/1h")
		first.Failure, second.Failure = c.first, c.second
		file := &config.File{Policies: []config.Policy{first, second}, Service: config.Service{Failure: closed}}
		g, err := gate.New(file, st, gate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if v := check(t, g, request("GET", "/")); v.Decision.Flags != flagOf[c.want] {
			t.Errorf("%v and %v: flags %v, want those of %v", c.first, c.second, v.Decision.Flags, c.want)
		}
		if v := mustAllow(t, g, gate.Request{Policy: "second", Key: "ann", Cost: 1}); v.Decision.Flags != flagOf[c.second] {
			t.Errorf("%v alone: flags %v, want %v", c.second, v.Decision.Flags, flagOf[c.second])
		}
		g.Close()
	}
}

func TestTooManyLimitsTogether(t *testing.T) {
	var policies []config.Policy
	for _, name := range []string{"a", "b"} {
		p := matching(name, "", "{address}")
		for i := range 40 {
			p.Limits = append(p.Limits, slidegate.Limit{Name: string(rune('A' + i)), Quota: 1, Window: 1e9})
		}
		policies = append(policies, p)
	}
	g := newGate(t, memory(t, newClock()), gate.Options{}, policies...)
	if _, err := g.CheckRequest(ctx, request("GET", "/")); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("80 limits together in a store that takes 64: got %v, want store.ErrUnsupported", err)
	}
	file := &config.File{Policies: policies}
	if _, err := gate.New(file, memory(t, newClock()), gate.Options{Requests: true}); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("where requests are checked, New returned %v, want store.ErrUnsupported", err)
	}
	policies[1].Match = config.Routes("/b/")
	if err := g.Reload(file); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("where a policy has a Match, Reload returned %v, want store.ErrUnsupported", err)
	}
	policies[0].Match = config.Routes("/a/")
	if err := g.Reload(file); err != nil {
		t.Errorf("where no request faces both, Reload returned %v, want no error", err)
	}
}

// All spellings of a host that reach the same site are one key: otherwise each port would have a separate quota.
func TestSpellingsOfHostsAreOneKey(t *testing.T) {
	for _, key := range []string{"{host}", "{address} {host}", "{header:Host}", "{header:host} {address}"} {
		g := newGate(t, memory(t, newClock()), gate.Options{}, matching("p", "", key, "1/1h"))
		for i, host := range []string{
			"shop.example", "shop.example:1", "shop.example:300", "shop.example:65535", "shop.example:", "shop.example:080", "shop.example.",
			"shop.example..", "shop.example...:80", "shop.example:99999999", "shop.example:-1", "shop.example:http", "SHOP.Example", "shop.example:80:81",
		} {
			r := request("GET", "/")
			r.Host = host
			if v := check(t, g, r); v.Decision.Allowed != (i == 0) {
				t.Errorf("key %s: the request to %s is allowed: %t, want one quota for all spellings", key, host, v.Decision.Allowed)
			}
		}
	}
}

// TestKeysOfRequests determines a key by finding which key shares its only unit.
func TestKeysOfRequests(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	for _, c := range []struct {
		template string
		request  *http.Request
		key      string
	}{
		{"{address}", request("GET", "/"), "203.0.113.9"},
		{"{address}", request("GET", "/", "X-Forwarded-For", "198.51.100.1"), "198.51.100.1"},
		{"{address}", request("GET", "/", "X-Forwarded-For", "6.6.6.6, 2001:db8::5"), "2001:db8::/64"},
		{"{method} {path}", request("DELETE", "/a//b/../c%20d/"), "DELETE /a/c%20d"}, // the space between fields is encoded in values
		{"{path}", request("GET", "http://h"), "/"},
		{"{query}", request("GET", "/x?a=1&b=2"), "a=1&b=2"},
		{"{query}", request("GET", "/x"), ""},
		{"{host}", request("GET", "http://API.Example:8080/"), "api.example"},
		{"{host}", request("GET", "http://api.example.:8081/"), "api.example"},
		{"{host}", request("GET", "http://[2001:DB8::1]:8080/"), "[2001:db8::1]"},
		{"{header:Host}", request("GET", "http://API.Example.:8080/"), "api.example"},
		{"{header:X-Tenant}", request("GET", "/", "X-Tenant", "t1"), "t1"},
		{"{header:X-Tenant}", request("GET", "/", "X-Tenant", "t1", "X-Tenant", "t2"), "address:203.0.113.9"}, // where listeners admit it
		{"{method} {path}", request("post", "//a@b/login"), "POST /login"},
		{"{path}", request("GET", `/\\x/login`), "/login"},
		{"{header:X-Tenant}", request("GET", "/"), "address:203.0.113.9"},
		{"{header:Host}", request("GET", "http://Host.example/"), "host.example"},
		{"u:{user}", request("GET", "/"), "u:address:203.0.113.9"},
		{"u:{user}", request("GET", "/", "Authorization", "Basic YW5uOnB3"), "u:address:203.0.113.9"}, // ann:pw, which is not verified
		{"{key}", request("GET", "/", "Key", "k"), "address:203.0.113.9"},
	} {
		p := config.Policy{Name: "p", Key: template(c.template), Limits: limits("1/1h")}
		g, err := gate.New(&config.File{Policies: []config.Policy{p}, Service: config.Service{TrustedProxies: proxies}},
			memory(t, newClock()), gate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		mustAllow(t, g, gate.Request{Key: c.key, Cost: 1})
		if v := check(t, g, c.request); v.Decision.Allowed {
			t.Errorf("%s %v: got %+v, want a refusal for the key %q", c.template, c.request.URL, v, c.key)
		}
		g.Close()
	}
}

func TestUserAndKeyFromTheListener(t *testing.T) {
	p := config.Policy{Name: "p", Key: template("{user} {key}"), Limits: limits("1/1h")}
	g := newGate(t, memory(t, newClock()), gate.Options{}, p)
	mustAllow(t, g, gate.Request{Key: "ann k", Cost: 1})
	v, err := g.CheckRequest(ctx, request("GET", "/").WithContext(config.WithKey(config.WithUser(ctx, "ann"), "k")))
	if err != nil || v.Decision.Allowed {
		t.Errorf("got %+v, %v; want a refusal", v, err)
	}
}

func TestCostOfPolicies(t *testing.T) {
	p := matching("p", "", "{address}", "10/1h")
	p.Cost, _ = fields.ParseCost("4")
	g := newGate(t, memory(t, newClock()), gate.Options{}, p, matching("q", "", "{address}", "10/1h"))
	if v := check(t, g, request("GET", "/")); v.Decision.Remaining != 6 || v.Decision.Answers[1].Remaining != 9 {
		t.Errorf("4 of 10 and 1 of 10: got %+v, want 6 and 9 remaining", v)
	}
}

// A request that no policy matches is counted, unless a policy exempts it.
func TestUnmatchedAndExempt(t *testing.T) {
	for name, listener := range map[string]gate.Listener{"http": gate.HTTP, "proxy": gate.Proxy} {
		m, provider := newMeasured()
		p := matching("api", "/api/", "{address}", "1/1h")
		p.Match = append(p.Match, config.Route{Pattern: "/api/health", Unlimited: true})
		g := newGate(t, memory(t, newClock()), gate.Options{MeterProvider: provider, Requests: listener == gate.Proxy}, p)
		for _, step := range []struct {
			path      string
			allowed   bool
			unmatched int64
		}{{"/api/x", true, 0}, {"/api/x", false, 0}, {"/api/health", true, 0}, {"/apii/x", true, 1}, {"/api/health", true, 1}, {"/", true, 2}} {
			v, held, err := policy.Decision{}, gate.Hold{}, error(nil)
			if listener == gate.Proxy {
				v, held, err = g.HoldRequest(ctx, request("GET", step.path), nil)
				held.Release(ctx, nil)
			} else {
				v, err = g.CheckRequest(ctx, request("GET", step.path))
			}
			if got := m.read(t)["unmatched{listener="+name+"}"]; err != nil || v.Decision.Allowed != step.allowed || got != step.unmatched {
				t.Errorf("%s %s: got %+v, %v and %d unmatched, want allowed %v and %d", name, step.path, v, err, got, step.allowed, step.unmatched)
			}
		}
		if v, err := g.CheckPolicy(ctx, "api", request("GET", "/api/health")); err != nil || !v.Decision.Allowed {
			t.Errorf("the named policy: got %+v, %v; want an exempt request", v, err)
		}
	}
}
