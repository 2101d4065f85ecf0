package gate_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// TestSlots: a policy's slots are held until they are released, and its other limits are charged in the same decision.
func TestSlots(t *testing.T) {
	c := newClock()
	g := newGate(t, memory(t, c), gate.Options{}, policyOf("p", "2 in-flight ttl=30s name=slots", "5/1h name=requests"), policyOf("plain", "5/1h"))
	req := gate.Request{Policy: "p", Key: "ann", Cost: 1}
	acquire := func() slidegate.Reservation {
		t.Helper()
		r, v, err := g.Take(ctx, gate.Acquire, req)
		if err != nil || !v.Decision.Allowed || gate.TimeToLive(&r) != 30*time.Second {
			t.Fatalf("got %+v, %+v, %v; want slots for 30s", r, v, err)
		}
		return r
	}
	first, second := acquire(), acquire()
	if r, v, err := g.Take(ctx, gate.Acquire, req); err != nil || v.Decision.Allowed || r.ID != "" || v.Decision.LimitName != "slots" || v.Decision.RetryAfter != 30*time.Second {
		t.Fatalf("a third of 2: got %+v, %+v, %v; want a refusal for 30s by slots", r, v, err)
	}
	for i, repeated := range []bool{false, true} {
		done, err := g.End(ctx, gate.Release, "p", first)
		if err != nil || len(done.Limits) != 2 || (done.Decision.Flags&rule.Repeated != 0) != repeated {
			t.Fatalf("release %d: got %+v, %v; want two limits, repeated %v", i, done, err, repeated)
		}
		slots, requests := done.Decision.Answers[0].Granted, done.Decision.Answers[1].Granted
		if gate.Label(&done.Limits[0]) != "slots" || gate.Label(&done.Limits[1]) != "requests" || requests != 0 {
			t.Errorf("release %d: got %+v; want nothing back of requests", i, done)
		}
		if !repeated && slots != 1 { // repeated, stores may return either what was done, or that no slot was left to release
			t.Errorf("release %d: got %d slots back, want 1", i, slots)
		}
	}
	third := acquire()
	c.Advance(20_000_000)
	if v, err := g.End(ctx, gate.Renew, "p", second); err != nil || !v.Decision.Allowed || v.Policy != "p" {
		t.Errorf("renew: got %+v, %v; want it renewed", v, err)
	}
	c.Advance(15_000_000)
	if v, err := g.End(ctx, gate.Renew, "p", third); err != nil || v.Decision.Allowed || !v.Refused {
		t.Errorf("renew after 35s of 30: got %+v, %v; want it lost", v, err)
	}
	if v, err := g.End(ctx, gate.Renew, "p", second); err != nil || !v.Decision.Allowed {
		t.Errorf("renew again: got %+v, %v; want it renewed", v, err)
	}
	fourth := acquire()
	if done, err := g.End(ctx, gate.Cancel, "p", fourth); err != nil || done.Decision.Answers[0].Granted != 1 || done.Decision.Answers[1].Granted != 1 {
		t.Errorf("cancel: got %+v, %v; want a slot and a request back", done, err)
	}
	if v, err := g.Do(ctx, gate.Peek, gate.Request{Policy: "p", Key: "ann", Cost: 1}); err != nil || v.Decision.Answers[0].Remaining != 1 || v.Decision.Answers[1].Remaining != 2 {
		t.Errorf("what is left: got %+v, %v; want 1 slot and 2 requests", v, err)
	}
	req.Cost = 0
	if r, v, err := g.Take(ctx, gate.Acquire, req); err != nil || !v.Decision.Allowed || v.Decision.Answers[1].Remaining != 2 || r.Charges[1].Cost != 0 {
		t.Errorf("a slot alone: got %+v, %+v, %v; want no request charged", r, v, err)
	}
	if _, _, err := g.Take(ctx, gate.Acquire, gate.Request{Policy: "plain", Key: "ann", Cost: 1}); !errors.Is(err, gate.ErrNoSlots) {
		t.Errorf("acquiring where there are no slots: got %v, want ErrNoSlots", err)
	}
}

// TestSlotWithoutHoldIsAnError: a caller that takes a slot and cannot hold it gets an error that says what to do, even if another
// policy has the in-flight limit; a key without an in-flight limit is decided.
func TestSlotWithoutHoldIsAnError(t *testing.T) {
	p := policyOf("slots", "2 in-flight ttl=30s")
	p.Overrides = []policy.Override{{Key: "vip", Limits: limits("5/1h")}}
	p.Allow.Keys = []string{"friend"}
	g := newGate(t, memory(t, newClock()), gate.Options{}, policyOf("plain", "5/1h"), p)
	req := gate.Request{Policy: "slots", Key: "ann", Cost: 1}
	r := httptest.NewRequest("GET", "/", nil)
	decisions, errs := make([]policy.Decision, 2), make([]error, 2)
	g.AllowBatch(ctx, []gate.Request{req, {Policy: "slots", Key: "vip", Cost: 1}}, decisions, errs)
	_, allowed := g.Do(ctx, gate.Allow, req)
	_, upTo := g.Do(ctx, gate.AllowUpTo, req)
	_, charged := g.Do(ctx, gate.Charge, req)
	_, checked := g.CheckRequest(ctx, r)
	_, named := g.CheckPolicy(ctx, "slots", r)
	for how, err := range map[string]error{"allow": allowed, "up to": upTo, "charge": charged, "batch": errs[0], "check": checked, "check by name": named} {
		if !errors.Is(err, gate.ErrSlots) || !strings.Contains(err.Error(), `"slots"`) || !strings.Contains(err.Error(), "/v1/acquire") {
			t.Errorf("%s: got %v, want an ErrSlots that names the policy and /v1/acquire", how, err)
		}
	}
	if errs[1] != nil || !decisions[1].Decision.Allowed {
		t.Errorf("an override without slots: got %+v, %v; want it allowed", decisions[1], errs[1])
	}
	if v, err := g.Do(ctx, gate.Allow, gate.Request{Policy: "slots", Key: "friend", Cost: 1}); err != nil || !v.Decision.Allowed {
		t.Errorf("on the allow list: got %+v, %v; want it allowed", v, err)
	}
	if v, err := g.Do(ctx, gate.Peek, req); err != nil || v.Decision.Remaining != 2 {
		t.Errorf("peek: got %+v, %v; want 2 remaining", v, err)
	}
	if got := gate.SlotPolicies(&config.File{Policies: []config.Policy{policyOf("plain", "5/1h"), p}}); len(got) != 1 || got[0] != "slots" {
		t.Errorf("policies with slots: got %q, want slots", got)
	}
}

// TestHoldRequest: the slots of all policies that match a request are held together until it is released.
func TestHoldRequest(t *testing.T) {
	c := newClock()
	policies := []config.Policy{policyOf("a", "1 in-flight ttl=30s"), policyOf("b", "5/1h"), policyOf("c", "9 in-flight ttl=30s")}
	g := newGate(t, memory(t, c), gate.Options{}, policies...)
	checkOut := func(a, b, c, all int64) {
		t.Helper()
		if p := g.InForce(); p[0].HoldsOut != a || p[1].HoldsOut != b || p[2].HoldsOut != c || g.Held() != all {
			t.Errorf("got %+v, %d requests that hold something, want %d, %d, %d and %d", p, g.Held(), a, b, c, all)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	report := func(err error) { t.Error(err) }
	v, held, err := g.HoldRequest(ctx, r, report)
	if err != nil || !v.Decision.Allowed {
		t.Fatalf("got %+v, %v; want it admitted", v, err)
	}
	checkOut(1, 0, 1, 1)
	for range 2 {
		refused, none, err := g.HoldRequest(ctx, r, report)
		if err != nil || refused.Decision.Allowed || refused.Policy != "a" {
			t.Errorf("a second of 1: got %+v, %v; want a refusal by a", refused, err)
		}
		none.Release(ctx, report)
	}
	held.Release(ctx, report)
	v, held, err = g.HoldRequest(ctx, r, report)
	if err != nil || !v.Decision.Allowed || v.Decision.Answers[1].Remaining != 3 {
		t.Errorf("after the release: got %+v, %v; want it admitted, and 3 of b left", v, err)
	}
	checkOut(1, 0, 1, 1)
	if err := g.Reload(&config.File{Policies: policies}); err != nil {
		t.Fatal(err)
	}
	checkOut(1, 0, 1, 1)
	held.Release(ctx, report)
	held.Release(ctx, report) // does nothing
	checkOut(0, 0, 0, 0)
	if err := g.Drain(ctx); err != nil {
		t.Error(err)
	}
}
