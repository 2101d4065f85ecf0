package gate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rulings"
)

// resolveRuling returns a ruling after ResolveRuling.
func resolveRuling(t *testing.T, g *gate.Gate, r rulings.Ruling) rulings.Ruling {
	t.Helper()
	if err := g.ResolveRuling(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Rulings are obeyed, reported by Explain, and stay in force when the file is reloaded.
func TestRulings(t *testing.T) {
	m, provider := newMeasured()
	var refused []string
	onRefused := func(r gate.Refusal) { refused = append(refused, r.Policy+" "+r.Key) }
	g := newGate(t, memory(t, newClock()), gate.Options{MeterProvider: provider, OnRefused: onRefused}, policyOf("api", "2/1h"), policyOf("other", "5/1m"))
	end := time.Now().Add(time.Hour)
	if err := g.SetRulings([]rulings.Ruling{
		resolveRuling(t, g, rulings.Ruling{Policy: "api", Key: "bad", Kind: rulings.Block, Until: end, Who: "ann", Why: "abuse"}),
		resolveRuling(t, g, rulings.Ruling{Policy: "api", Key: "more", Kind: rulings.Limits, Limits: []string{"7/1h"}}),
		resolveRuling(t, g, rulings.Ruling{Policy: "api", Key: "free", Kind: rulings.Unlimited}),
		{Policy: "gone", Key: "x", Kind: rulings.Block},
	}); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		if v := mustAllow(t, g, gate.Request{Policy: "api", Key: "bad", Cost: 1}); v.Decision.Allowed || v.By != policy.ByRuling || v.Decision.RetryAfter <= 0 || v.Decision.RetryAfter > time.Hour {
			t.Errorf("%s, blocked: got %+v, want a refusal until the end of the hour", when, v)
		}
		if v := mustAllow(t, g, gate.Request{Policy: "other", Key: "bad", Cost: 1}); !v.Decision.Allowed {
			t.Errorf("%s, under another policy: got %+v, want it admitted", when, v)
		}
		if v, _ := g.Do(ctx, gate.Peek, gate.Request{Policy: "api", Key: "more", Cost: 1}); v.Decision.Quota != 7 {
			t.Errorf("%s, raised: got %+v, want a quota of 7", when, v)
		}
		if v := mustAllow(t, g, gate.Request{Policy: "api", Key: "free", Cost: 9}); !v.Decision.Allowed || v.By != policy.ByUnlimited {
			t.Errorf("%s, unlimited: got %+v, want it admitted", when, v)
		}
		e, err := g.Explain(ctx, gate.Request{Policy: "api", Key: "bad", Cost: 1})
		if err != nil || !e.Refused || e.Allowed || e.By != policy.ByRuling || e.Ruling == nil || e.Ruling.Who != "ann" || e.Ruling.Why != "abuse" || len(e.Limits) != 0 {
			t.Errorf("%s, explained: got %+v, %v; want the ruling with who and why", when, e, err)
		}
		if limits := g.LimitsOf("api", "more"); len(limits) != 1 || limits[0].String() != "7/1h" {
			t.Errorf("%s: limits of the key: got %v, want 7/1h", when, limits)
		}
	}
	check("at first")
	if err := g.Reload(&config.File{Policies: []config.Policy{policyOf("api", "3/1h"), policyOf("other", "5/1m")}}); err != nil {
		t.Fatal(err)
	}
	check("after a reload")
	if n := m.read(t)["policy.decisions{by=ruling,outcome=refused,policy=api}"]; n != 2 {
		t.Errorf("got %d refusals by rulings counted, want 2", n)
	}
	if !slices.Equal(refused, []string{"api bad", "api bad"}) {
		t.Errorf("refused keys: got %q, want the blocked one twice", refused)
	}
	if err := g.Reload(&config.File{Policies: []config.Policy{policyOf("gone", "3/1h")}}); err != nil {
		t.Fatal(err)
	}
	if v := mustAllow(t, g, gate.Request{Policy: "gone", Key: "x", Cost: 1}); v.By != policy.ByRuling {
		t.Errorf("a restored policy: got %+v, want the ruling about it obeyed", v)
	}
	if err := g.SetRulings(nil); err != nil {
		t.Fatal(err)
	}
	if v := mustAllow(t, g, gate.Request{Policy: "gone", Key: "x", Cost: 1}); v.By != policy.ByLimits {
		t.Errorf("without rulings: got %+v, want the limits to decide", v)
	}
}

// ResolveRuling fills in the policy and normalizes the key, and the ruling's limits share the counts of the policy's.
func TestResolveRuling(t *testing.T) {
	file := policyOf("api", "2/1h name=hour", "1/1s")
	file.Key = template("{address}")
	g := newGate(t, memory(t, newClock()), gate.Options{}, file)
	r := resolveRuling(t, g, rulings.Ruling{Key: "2001:db8::/64", Kind: rulings.Limits, Limits: []string{"9 per 1h", "8/1m"}})
	if r.Policy != "api" || r.Key != "2001:db8::/64" || !slices.Equal(r.Limits, []string{`9/1h name="hour"`, "8/1m"}) {
		t.Errorf("got %+v, want the default policy and the name of the limit per hour", r)
	}
	for name, wrong := range map[string]struct {
		ruling      rulings.Ruling
		field, text string
	}{
		"key":    {rulings.Ruling{Key: "2001:db8::3", Kind: rulings.Block}, "key", "write 2001:db8::/64"},
		"policy": {rulings.Ruling{Policy: "apy", Key: "192.0.2.1", Kind: rulings.Block}, "policy", "api"},
		"limit":  {rulings.Ruling{Key: "192.0.2.1", Kind: rulings.Limits, Limits: []string{"9/fortnight"}}, "limits", "fortnight"},
		"slots":  {rulings.Ruling{Key: "192.0.2.1", Kind: rulings.Limits, Limits: []string{"9 in-flight ttl=30s"}}, "limits", "in-flight"},
	} {
		var fieldErr *rulings.FieldError
		if err := g.ResolveRuling(&wrong.ruling); !errors.As(err, &fieldErr) || fieldErr.Field != wrong.field || !strings.Contains(err.Error(), wrong.text) {
			t.Errorf("%s: got %v, want an error of %s that says %q", name, err, wrong.field, wrong.text)
		}
	}
	ended := rulings.Ruling{Key: "2001:db8::/64", Kind: rulings.Clear}
	if err := g.ResolveRuling(&ended); err != nil || ended.Policy != "api" {
		t.Errorf("clearing one: got %+v, %v; want its policy", ended, err)
	}
}

// A ruling that a reload made invalid is left out and has a note, and the others stay.
func TestInvalidRulingIsLeftOut(t *testing.T) {
	slots := policyOf("api", "9 in-flight ttl=30s")
	g := newGate(t, memory(t, newClock()), gate.Options{}, slots)
	impossible := resolveRuling(t, g, rulings.Ruling{Key: "a", Kind: rulings.Limits, Limits: []string{"3 in-flight ttl=30s"}})
	blocked := resolveRuling(t, g, rulings.Ruling{Key: "b", Kind: rulings.Block})
	if err := g.SetRulings([]rulings.Ruling{impossible, blocked}); err != nil {
		t.Fatal(err)
	}
	shadow := policyOf("shadow", "2/1h")
	shadow.Shadow = true
	if err := g.Reload(&config.File{Policies: []config.Policy{policyOf("api", "9/1h"), shadow}}); err != nil {
		t.Fatal(err)
	}
	if v := mustAllow(t, g, gate.Request{Policy: "api", Key: "a", Cost: 1}); !v.Decision.Allowed || v.Decision.Quota != 9 {
		t.Errorf("got %+v, want the policy's limit", v)
	}
	if v := mustAllow(t, g, gate.Request{Policy: "api", Key: "b", Cost: 1}); v.Decision.Allowed {
		t.Errorf("got %+v, want the other ruling obeyed", v)
	}
	for want, r := range map[string]rulings.Ruling{
		"cannot be applied": impossible, "": blocked, "no policy": {Policy: "gone", Key: "a", Kind: rulings.Block},
		"shadow": {Policy: "shadow", Key: "a", Kind: rulings.Block},
	} {
		if note := g.RulingNote(&r); !strings.Contains(note, want) || want == "" && note != "" {
			t.Errorf("%+v: the note is %q, want %q", r, note, want)
		}
	}
}
