package gate_test

import (
	"errors"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// richPolicy returns a policy with everything that can decide.
func richPolicy() config.Policy {
	p := policyOf("api", "2/1h")
	p.Overrides = []policy.Override{
		{Key: "vip-7", Limits: limits("5/1h")},
		{Key: "vip-*", Pattern: true, Limits: limits("3/1h")},
		{Key: "vip-8", Limits: limits("9/1h")}, // never reached: the pattern comes first
		{Key: "robot", Unlimited: true},
		{Key: "*t", Pattern: true, Limits: limits("1/1h")},
	}
	p.Block = policy.List{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Keys: []string{"bad", "evil-*"}}
	p.Allow = policy.List{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("2001:db8::/32")}, Keys: []string{"evil-twin", "friend"}}
	return p
}

func TestDecisionNamesWhatDecided(t *testing.T) {
	for _, c := range []struct {
		key, addr string
		quota     int64 // 0 if the limits do not decide
		by        policy.By
	}{
		{"anybody", "", 2, policy.ByLimits},
		{"vip-7", "", 5, policy.ByLimits},
		{"vip-8", "", 3, policy.ByLimits},
		{"vip-", "", 3, policy.ByLimits},
		{"xvip-7", "", 2, policy.ByLimits},
		{"robot", "", 0, policy.ByUnlimited}, // its exact override takes precedence over the pattern *t, which also matches
		{"parrot", "", 1, policy.ByLimits},
		{"friend", "", 0, policy.ByAllowList},
		{"bad", "", 0, policy.ByBlockList},
		{"evil-twin", "", 0, policy.ByBlockList}, // on both lists: refused
		{"anybody", "192.0.2.7", 0, policy.ByBlockList},
		{"anybody", "192.0.3.7", 2, policy.ByLimits},
		{"anybody", "::ffff:192.0.2.9", 0, policy.ByBlockList}, // the same address, written in IPv6
		{"anybody", "2001:db8::1", 0, policy.ByAllowList},
		{"anybody", "2001:db8::1%eth0", 0, policy.ByAllowList},
		{"robot", "192.0.2.1", 0, policy.ByBlockList},
		{"", "", 2, policy.ByLimits},
	} {
		store := &recordingStore{Store: memory(t, newClock())}
		g := newGate(t, store, gate.Options{}, richPolicy())
		req := gate.Request{Key: c.key, Cost: 1}
		if c.addr != "" {
			req.Address = netip.MustParseAddr(c.addr)
		}
		v := mustAllow(t, g, req)
		if v.By != c.by || v.Decision.Quota != c.quota || v.Policy != "api" {
			t.Errorf("%s from %q: by %v with quota %d under %q, want %v and %d", c.key, c.addr, v.By, v.Decision.Quota, v.Policy, c.by, c.quota)
		}
		refused := c.by == policy.ByBlockList
		if v.Decision.Allowed == refused || v.Refused != refused || refused != (v.Decision.RetryAfter == slidegate.Never) {
			t.Errorf("%s from %q: got %+v, want refused forever: %v", c.key, c.addr, v, refused)
		}
		if called := store.applies.Load() > 0; called != (c.by == policy.ByLimits) {
			t.Errorf("%s from %q: the store was called: got %v, want %v", c.key, c.addr, called, c.by == policy.ByLimits)
		}
		if c.by == policy.ByLimits && (len(v.Limits) != 1 || v.Limits[0].Quota != c.quota) {
			t.Errorf("%s: limits %v, want one with the quota %d", c.key, v.Limits, c.quota)
		}
	}
}

func TestOverrideKeepsCounts(t *testing.T) {
	store := memory(t, newClock())
	g := newGate(t, store, gate.Options{}, policyOf("api", "2/1h"))
	mustAllow(t, g, gate.Request{Key: "ann", Cost: 2})
	p := policyOf("api", "2/1h")
	p.Overrides = []policy.Override{{Key: "ann", Limits: limits("5/1h")}}
	if err := g.Reload(&config.File{Policies: []config.Policy{p}}); err != nil {
		t.Fatal(err)
	}
	if v := mustAllow(t, g, gate.Request{Key: "ann", Cost: 1}); !v.Decision.Allowed || v.Decision.Remaining != 2 {
		t.Errorf("after 2 of 5 were used: got %+v, want allowed with 2 remaining", v)
	}
}

func TestShadow(t *testing.T) {
	p := richPolicy()
	p.Shadow = true
	m, provider := newMeasured()
	g := newGate(t, memory(t, newClock()), gate.Options{MeterProvider: provider}, p)
	for i := range 3 {
		v := mustAllow(t, g, gate.Request{Key: "ann", Cost: 1})
		if !v.Decision.Allowed || !v.Shadow || v.Refused != (i == 2) || v.Decision.RetryAfter != 0 || v.Decision.Granted != 1 {
			t.Errorf("request %d: got %+v, want an allowed shadow, refused %v, granted 1, no RetryAfter", i, v, i == 2)
		}
	}
	v := mustAllow(t, g, gate.Request{Key: "bad", Cost: 1})
	if !v.Decision.Allowed || !v.Refused || v.By != policy.ByBlockList || v.Decision.RetryAfter != 0 {
		t.Errorf("on the block list: got %+v, want allowed but refused by the block list, no RetryAfter", v)
	}
	want := map[string]int64{
		"policy.decisions{by=limits,outcome=admitted,policy=api}":           2,
		"policy.decisions{by=limits,outcome=shadow_refused,policy=api}":     1,
		"policy.decisions{by=block_list,outcome=shadow_refused,policy=api}": 1,
		"policies{}": 1,
	}
	if got := m.read(t); !maps.Equal(got, want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
	up, err := g.Do(ctx, gate.AllowUpTo, gate.Request{Key: "ann", Cost: 4})
	if err != nil || !up.Decision.Allowed || up.Decision.Granted != 4 || !up.Refused {
		t.Errorf("up to: got %+v, %v; want allowed but refused, with 4 granted", up, err)
	}
	r, v, err := g.Take(ctx, gate.Reserve, gate.Request{Key: "ann", Cost: 1})
	if err != nil || !v.Refused || !v.Decision.Allowed || r.ID == "" || len(r.Charges) != 0 {
		t.Errorf("reserve: got %+v, %+v, %v; want allowed but refused, and an ID without charges", r, v, err)
	}
	if _, err := g.End(ctx, gate.Settle, "", r, slidegate.Used{Limit: "2/1h", Cost: 7}); err != nil {
		t.Errorf("settling what was not charged: got %v, want no error", err)
	}
}

func TestPolicyNames(t *testing.T) {
	store := memory(t, newClock())
	two := []config.Policy{policyOf("login", "1/1h"), policyOf("search", "2/1h")}
	g := newGate(t, store, gate.Options{}, two...)
	_, err := g.Do(ctx, gate.Allow, gate.Request{Policy: "serach", Key: "ann", Cost: 1})
	if !errors.Is(err, gate.ErrPolicy) || !strings.Contains(err.Error(), `did you mean "search"`) ||
		!strings.Contains(err.Error(), "login") || !strings.HasPrefix(err.Error(), "unknown policy: ") || strings.Contains(err.Error(), "ann") {
		t.Errorf("an unknown policy: got %v, want gate.ErrPolicy with the known names, the nearest, and no key", err)
	}
	if _, err := g.Do(ctx, gate.Allow, gate.Request{Key: "ann", Cost: 1}); !errors.Is(err, gate.ErrNoPolicy) || !strings.Contains(err.Error(), "login, search") {
		t.Errorf("no policy named, two configured: got %v, want gate.ErrNoPolicy with the names", err)
	}
	for _, c := range []struct {
		file config.File
		want string
	}{
		{config.File{Policies: two[:1]}, "login"},
		{config.File{Policies: append(two[:2:2], policyOf("default", "3/1h"))}, "default"},
		{config.File{Policies: two, Service: config.Service{Default: "search"}}, "search"},
	} {
		if err := g.Reload(&c.file); err != nil {
			t.Fatal(err)
		}
		if v := mustAllow(t, g, gate.Request{Key: "bob"}); v.Policy != c.want {
			t.Errorf("the default is %q, want %q", v.Policy, c.want)
		}
	}
	err = g.Reload(&config.File{Policies: two, Service: config.Service{Default: "loging"}})
	if !errors.Is(err, gate.ErrPolicy) || !strings.Contains(err.Error(), "default_policy") {
		t.Errorf("an unknown default: got %v, want gate.ErrPolicy with default_policy", err)
	}
	if got := g.Policies(); len(got) != 2 || got[0] != "login" {
		t.Errorf("policies after a failed reload: got %v, want the previous 2, login first", got)
	}
}

func TestBadCosts(t *testing.T) {
	g := newGate(t, memory(t, newClock()), gate.Options{}, richPolicy())
	for _, key := range []string{"ann", "friend", "robot"} { // also if no limit decides
		for _, cost := range []int64{-1, rule.MaxQuota + 1} {
			req := gate.Request{Key: key, Cost: cost}
			_, a := g.Do(ctx, gate.Allow, req)
			_, b := g.Do(ctx, gate.AllowUpTo, req)
			_, c := g.Do(ctx, gate.Peek, req)
			_, _, d := g.Take(ctx, gate.Reserve, req)
			_, e := g.Do(ctx, gate.Refund, req)
			_, f := g.Explain(ctx, req)
			_, h := g.Do(ctx, gate.Charge, req)
			errs := make([]error, 1)
			g.AllowBatch(ctx, []gate.Request{req}, make([]policy.Decision, 1), errs)
			for i, err := range []error{a, b, c, d, e, f, h, errs[0]} {
				if !errors.Is(err, slidegate.ErrCost) || strings.Contains(err.Error(), key) {
					t.Errorf("operation %d, cost %d: got %v, want slidegate.ErrCost without the key", i, cost, err)
				}
			}
		}
	}
}

// usedFirst returns the use of the first limit of a reservation.
func usedFirst(r slidegate.Reservation, cost int64) slidegate.Used {
	return slidegate.Used{Limit: r.Charges[0].Limit.String(), Cost: cost}
}

func TestReservation(t *testing.T) {
	g := newGate(t, memory(t, newClock()), gate.Options{}, richPolicy(), policyOf("other", "2/1h"))
	req := gate.Request{Policy: "api", Key: "ann", Cost: 2}
	r, v, err := g.Take(ctx, gate.Reserve, req)
	if err != nil || !v.Decision.Allowed || v.Decision.Remaining != 0 || len(r.Charges) != 1 {
		t.Fatalf("reserve: got %+v, %+v, %v; want allowed with 0 remaining and one charge", r, v, err)
	}
	if refusedRes, v, err := g.Take(ctx, gate.Reserve, req); err != nil || v.Decision.Allowed || refusedRes.ID != "" {
		t.Fatalf("a second reservation: got %+v, %+v, %v; want a refusal without an ID", refusedRes, v, err)
	}
	if _, err := g.End(ctx, gate.Settle, "api", r, usedFirst(r, 1)); err != nil {
		t.Fatal(err)
	}
	if v, _ := g.Do(ctx, gate.Peek, gate.Request{Policy: "api", Key: "ann", Cost: 1}); v.Decision.Remaining != 1 {
		t.Errorf("settled to 1 of 2: got %+v, want 1 remaining", v)
	}
	if _, err := g.End(ctx, gate.Settle, "nobody", r, usedFirst(r, 1)); !errors.Is(err, gate.ErrPolicy) {
		t.Errorf("settling under an unknown policy: got %v, want gate.ErrPolicy", err)
	}
	if _, err := g.End(ctx, gate.Settle, "api", slidegate.Reservation{}, slidegate.Used{Cost: 1}); !errors.Is(err, slidegate.ErrReservation) {
		t.Errorf("settling a refused reservation: got %v, want slidegate.ErrReservation", err)
	}
	free, v, err := g.Take(ctx, gate.Reserve, gate.Request{Policy: "api", Key: "friend", Cost: 5})
	if err != nil || v.By != policy.ByAllowList || free.ID == "" {
		t.Fatalf("reserve on the allow list: got %+v, %+v, %v; want an ID by the allow list", free, v, err)
	}
	if _, err := g.End(ctx, gate.Cancel, "api", free); err != nil {
		t.Error(err)
	}
	if _, err := g.End(ctx, gate.Settle, "api", free, slidegate.Used{Cost: -1}); !errors.Is(err, slidegate.ErrCost) {
		t.Errorf("settling a negative cost: got %v, want slidegate.ErrCost", err)
	}
}

func TestRefundAndReset(t *testing.T) {
	p := richPolicy()
	g := newGate(t, memory(t, newClock()), gate.Options{}, p)
	req := gate.Request{Key: "ann", Cost: 1}
	mustAllow(t, g, gate.Request{Key: "ann", Cost: 2})
	if v, err := g.Do(ctx, gate.Refund, req); err != nil || v.Decision.Remaining != 1 || v.Decision.Granted != 1 {
		t.Errorf("refund: got %+v, %v; want 1 granted and 1 remaining", v, err)
	}
	if v, err := g.Do(ctx, gate.Refund, gate.Request{Key: "friend", Cost: 1}); err != nil || v.By != policy.ByAllowList || v.Decision.Granted != 0 {
		t.Errorf("refund on the allow list: got %+v, %v; want 0 granted by the allow list", v, err)
	}
	if _, err := g.Do(ctx, gate.Reset, req); err != nil {
		t.Fatal(err)
	}
	if v, _ := g.Do(ctx, gate.Peek, req); v.Decision.Remaining != 2 {
		t.Errorf("after a reset: got %+v, want 2 remaining", v)
	}
	if _, err := g.Do(ctx, gate.Reset, gate.Request{Key: "robot"}); err != nil {
		t.Errorf("reset of a key without limits: got %v, want no error", err)
	}
}

func TestRetryAfterIsExact(t *testing.T) {
	c := newClock()
	g := newGate(t, memory(t, c), gate.Options{}, config.Policy{Name: "p", Limits: limits("1/10s sliding-log")})
	mustAllow(t, g, gate.Request{Key: "ann", Cost: 1})
	c.Advance(4_000_000)
	v := mustAllow(t, g, gate.Request{Key: "ann", Cost: 1})
	if v.Decision.Allowed || v.Decision.RetryAfter != 6*time.Second {
		t.Errorf("4s after the only unit of a log of 10s: got %+v, want a refusal to retry after 6s", v)
	}
}
