package envoy

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rulings"
)

func (r *rig) rule(all ...rulings.Ruling) {
	for i := range all {
		if all[i].Policy == "" {
			all[i].Policy = "envoy:api"
		}
	}
	r.service.SetRulings(all)
}

// TestRulings: until a ruling ends, a block refuses, other limits replace the rule's and continue its counts, and
// unlimited descriptors are not counted.
func TestRulings(t *testing.T) {
	var refused refusals
	r := newRig(t, Options{OnRefused: refused.add}, apiRules)
	const ann, bob = "remote_address=192.0.2.1", "remote_address=192.0.2.2"

	until := time.Now().Add(90 * time.Second)
	r.rule(rulings.Ruling{Key: ann, Kind: rulings.Block, Until: until})
	got := r.send(request("api", 1, ann))
	wait := got.GetStatuses()[0].GetDurationUntilReset().GetSeconds()
	if summary(got) != "OVER: OVER/0" || wait < 60 || wait > 90 {
		t.Errorf("blocked: %v", got)
	}
	r.want(request("api", 1, bob), "OK: OK/1")
	r.want(request("other", 1, ann), "OK: OK/-")
	if list := refused.take(); len(list) != 1 || list[0] != "envoy:api "+ann+" api.remote_address by ruling" {
		t.Errorf("got %q", list)
	}
	r.rule()
	r.want(request("api", 1, ann), "OK: OK/1") // blocked hits were not charged

	r.rule(rulings.Ruling{Key: ann, Kind: rulings.Limits, Limits: []string{"5/1m"}, Until: until})
	r.want(request("api", 3, ann), "OK: OK/1") // 4 of 5
	if limit := r.send(request("api", 0, ann)).GetStatuses()[0].GetCurrentLimit(); limit.GetRequestsPerUnit() != 5 {
		t.Errorf("got the limit %v", limit)
	}
	r.rule()
	r.want(request("api", 1, ann), "OVER: OVER/0")
	r.rule(rulings.Ruling{Key: ann, Kind: rulings.Limits, Limits: []string{"1/1h sliding-log"}})
	r.want(request("api", 1, ann), "OK: OK/0") // another count
	r.want(request("api", 1, ann), "OVER: OVER/0")
	r.rule(rulings.Ruling{Key: ann, Kind: rulings.Unlimited})
	r.want(request("api", 99, ann), "OK: OK/inf")
	r.rule(rulings.Ruling{Key: ann, Kind: rulings.Block, Until: time.Now().Add(-time.Second)})
	r.want(request("api", 1, bob), "OK: OK/0")
	r.want(request("api", 1, ann), "OVER: OVER/0") // by its rule: the ruling has ended
}

// TestRulingsExpire: a ruling ends at its time without a change.
func TestRulingsExpire(t *testing.T) {
	r := newRig(t, Options{}, apiRules)
	const ann = "remote_address=192.0.2.1"
	r.rule(rulings.Ruling{Key: ann, Kind: rulings.Block, Until: time.Now().Add(300 * time.Millisecond)})
	r.want(request("api", 0, ann), "OVER: OVER/0")
	for end := time.Now().Add(30 * time.Second); summary(r.send(request("api", 0, ann))) != "OK: OK/1"; {
		r.clock.Advance(60_000_000)
		if time.Now().After(end) {
			t.Fatal("the ruling did not end")
		}
	}
}

// TestRulingsWithoutARule: there can be a ruling about a descriptor that no rule matches, even one with escaped
// characters; and a block refuses whatever the mode of the rule.
func TestRulingsWithoutARule(t *testing.T) {
	r := newRig(t, Options{}, apiRules)
	made := rulings.Ruling{Policy: "envoy:api", Key: "user=a%2cb", Kind: rulings.Block}
	if field, err := r.service.ResolveRuling(&made); err != nil || made.Key != "user=a%2Cb" {
		t.Fatalf("%s: got %v and the key %s", field, err, made.Key)
	}
	comma := request("api", 1, "user=x")
	comma.Descriptors[0].Entries[0].Value = "a,b"
	r.rule(made, rulings.Ruling{Key: "watched=w", Kind: rulings.Block}, rulings.Ruling{Key: "quota=q", Kind: rulings.Block},
		rulings.Ruling{Key: "path=/export/a,admin=root", Kind: rulings.Limits, Limits: []string{"1/1m"}},
		rulings.Ruling{Key: "user=limited", Kind: rulings.Limits, Limits: []string{"2/1h"}})
	got := r.send(comma)
	if summary(got) != "OVER: OVER/-" || got.GetStatuses()[0].GetDurationUntilReset() != nil {
		t.Errorf("blocked without an end: got %v", got)
	}
	r.want(request("api", 1, "watched=w"), "OVER: OVER/0")
	r.want(request("api", 1, "quota=q", "quota=other"), "OVER: OVER/0 OK/0")
	r.want(request("api", 2, "path=/export/a,admin=root"), "OVER: OVER/0")
	r.want(request("api", 1, "user=limited"), "OK: OK/1")
	r.want(request("api", 2, "user=limited"), "OVER: OVER/0")
	own := request("api", 9, "user=limited")
	own.Descriptors[0].Limit = limitOf(100, 3) // a limit in the descriptor does not take precedence
	r.want(own, "OVER: OVER/0")
	if err := r.service.Reload([]*Domain{mustParse(t, apiRules+"- {key: more}\n")}); err != nil {
		t.Fatal(err)
	}
	r.want(request("api", 1, "watched=w"), "OVER: OVER/0") // rulings survive a reload
}

// TestBlockChargesNothing: in a domain that charges all or nothing, a block is a refusal like any other.
func TestBlockChargesNothing(t *testing.T) {
	r := newRig(t, Options{}, "domain: api\ncharging: all\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 2}}\n- {key: b, rate_limit: {unit: day, requests_per_unit: 2}}\n")
	r.rule(rulings.Ruling{Key: "a=1", Kind: rulings.Block})
	r.want(request("api", 1, "a=1", "b=1"), "OVER: OVER/0 OK/2")
	r.rule()
	r.want(request("api", 1, "a=1", "b=1"), "OK: OK/1 OK/1")
}

func TestRulingsAreExplained(t *testing.T) {
	r := newRig(t, Options{}, apiRules)
	const ann = "remote_address=192.0.2.1"
	req := gate.Request{Policy: "envoy:api", Key: ann, Cost: 1}
	r.rule(rulings.Ruling{Key: ann, Kind: rulings.Block, Why: "scraper"})
	e, err := r.service.Explain(t.Context(), req)
	if err != nil || e.By != policy.ByRuling || e.Allowed || e.Ruling == nil || e.Ruling.Why != "scraper" || e.Rule != "api.remote_address" {
		t.Errorf("a block: got %+v, %v", e, err)
	}
	v, err := r.service.Peek(t.Context(), req)
	if err != nil || v.By != policy.ByRuling || v.Decision.Allowed {
		t.Errorf("a peek at a block: got %+v, %v", v, err)
	}
	r.rule(rulings.Ruling{Key: ann, Kind: rulings.Limits, Limits: []string{"7/1m"}})
	if got := r.explain(ann, 1); !strings.Contains(got, "7/1m fixed-window count-refused 7/7") {
		t.Errorf("other limits: got %s", got)
	}
	if got := r.service.LimitsOf("envoy:api", ann); len(got) != 1 || got[0].Quota != 7 {
		t.Errorf("top: got %v", got)
	}
	r.rule(rulings.Ruling{Key: ann, Kind: rulings.Limits, Limits: []string{"1/1h sliding-log"}})
	r.want(request("api", 1, ann), "OK: OK/0")
	if err := r.service.Reset(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	r.want(request("api", 1, ann), "OK: OK/0")
}

// TestAddressesOfRulings: an address means the descriptor that Envoy sends, however a person writes it.
func TestAddressesOfRulings(t *testing.T) {
	r := newRig(t, Options{}, apiRules)
	for written, sent := range map[string]string{
		"remote_address=2001:DB8::1":                         "remote_address=2001:db8::1",
		"remote_address=2001:db8:0:0:0:0:0:1":                "remote_address=2001:db8::1",
		"remote_address=::ffff:192.0.2.2":                    "remote_address=192.0.2.2",
		"masked_remote_address=2001:DB8:0:0::/64":            "masked_remote_address=2001:db8::/64",
		"user=2001:DB8::1":                                   "user=2001:DB8::1",
		"user=x,remote_address=2001:DB8::1,path=/2001:DB8::": "user=x,remote_address=2001:db8::1,path=/2001:DB8::",
	} {
		made := rulings.Ruling{Policy: "envoy:api", Key: written, Kind: rulings.Block}
		if field, err := r.service.ResolveRuling(&made); err != nil {
			t.Fatalf("%s: %s: %v", written, field, err)
		}
		r.rule(made)
		if got := summary(r.send(request("api", 0, sent))); !strings.HasPrefix(got, "OVER") {
			t.Errorf("%s: got %s for %s, want it blocked", written, got, sent)
		}
	}
}

func TestInvalidRulings(t *testing.T) {
	r := newRig(t, Options{}, apiRules)
	for _, c := range []struct{ policy, key, limits, field, want string }{
		{"envoy:apo", "a=b", "5/1m", "policy", `did you mean "envoy:api"?`},
		{"envoy:api", "a=b=c", "5/1m", "key", "has two ="},
		{"envoy:api", "a=b", "5/1m 6/1h", "limits", "has one limit, not 2"},
		{"envoy:api", "a=b", "5/1.5s", "limits", "whole number of seconds"},
		{"envoy:api", "a=b", "5000000000/1s", "limits", "at most 4294967295"},
		{"envoy:api", "a=b", "many", "limits", "many"},
		{"envoy:api", "remote_address=192.0.2.0/24", "5/1m", "key", "is a prefix"},
		{"envoy:api", "remote_address=192.0.2.1:80", "5/1m", "key", "without a port"},
		{"envoy:api", "masked_remote_address=192.0.2.1", "5/1m", "key", "must be a prefix"},
		{"envoy:api", "masked_remote_address=::ffff:192.0.2.0/120", "5/1m", "key", "write it as IPv4"},
	} {
		made := rulings.Ruling{Policy: c.policy, Key: c.key, Kind: rulings.Limits, Limits: strings.Fields(c.limits)}
		if field, err := r.service.ResolveRuling(&made); err == nil || field != c.field || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %s: %v", c, field, err)
		}
	}
	if note := r.service.RulingNote(&rulings.Ruling{Policy: "envoy:api", Key: "watched=x", Kind: rulings.Limits, Limits: []string{"5/1m"}}); !strings.Contains(note, "shadow") {
		t.Errorf("a rule in shadow mode: got the note %q", note)
	}
}
