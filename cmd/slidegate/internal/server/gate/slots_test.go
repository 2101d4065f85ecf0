package gate_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/config"
)

// TestSlots: a policy's slots are held until they are released, and its other limits are charged in the same decision.
func TestSlots(t *testing.T) {
	c := newClock()
	g := newGate(t, sameStores(memory(t, c)), gate.Options{}, policyOf("p", "2 in-flight ttl=30s name=slots", "5/1h name=requests"), policyOf("plain", "5/1h"))
	req := gate.Request{Policy: "p", Key: "ann", Cost: 1}
	acquire := func() slidegate.Reservation {
		t.Helper()
		r, v, err := g.Acquire(ctx, req)
		if err != nil || !v.Decision.Allowed || gate.TimeToLive(&r) != 30*time.Second {
			t.Fatalf("got %+v, %+v, %v; want slots for 30s", r, v, err)
		}
		return r
	}
	first, second := acquire(), acquire()
	if r, v, err := g.Acquire(ctx, req); err != nil || v.Decision.Allowed || r.ID != "" || v.Decision.LimitName != "slots" || v.Decision.RetryAfter != 30*time.Second {
		t.Fatalf("a third of 2: got %+v, %+v, %v; want a denial for 30s by slots", r, v, err)
	}
	for i, repeated := range []bool{false, true} {
		done, err := g.Release(ctx, "p", first)
		want := gate.Settlement{Limits: []gate.SettledLimit{{Limit: "slots", Returned: 1}, {Limit: "requests"}}, Repeated: repeated}
		if repeated {
			want.Limits[0].Returned = done.Limits[0].Returned // stores may return either what was done, or that no slot was left to release
		}
		if err != nil || !equalSettlements(done, want) {
			t.Errorf("release %d: got %+v, %v; want %+v", i, done, err, want)
		}
	}
	third := acquire()
	c.Advance(20_000_000)
	if v, err := g.Renew(ctx, "p", second); err != nil || !v.Decision.Allowed || v.Policy != "p" {
		t.Errorf("renew: got %+v, %v; want it renewed", v, err)
	}
	c.Advance(15_000_000)
	if v, err := g.Renew(ctx, "p", third); err != nil || v.Decision.Allowed || !v.Refused {
		t.Errorf("renew after 35s of 30: got %+v, %v; want it lost", v, err)
	}
	if v, err := g.Renew(ctx, "p", second); err != nil || !v.Decision.Allowed {
		t.Errorf("renew again: got %+v, %v; want it renewed", v, err)
	}
	fourth := acquire()
	if done, err := g.Cancel(ctx, "p", fourth); err != nil || done.Limits[0].Returned != 1 || done.Limits[1].Returned != 1 {
		t.Errorf("cancel: got %+v, %v; want a slot and a request back", done, err)
	}
	if v, err := g.Peek(ctx, gate.Request{Policy: "p", Key: "ann", Cost: 1}); err != nil || v.Decision.Answers[0].Remaining != 1 || v.Decision.Answers[1].Remaining != 2 {
		t.Errorf("what is left: got %+v, %v; want 1 slot and 2 requests", v, err)
	}
	req.Cost = 0
	if r, v, err := g.Acquire(ctx, req); err != nil || !v.Decision.Allowed || v.Decision.Answers[1].Remaining != 2 || r.Charges[1].Cost != 0 {
		t.Errorf("a slot alone: got %+v, %+v, %v; want no request charged", r, v, err)
	}
	if _, _, err := g.Acquire(ctx, gate.Request{Policy: "plain", Key: "ann", Cost: 1}); !errors.Is(err, gate.ErrNoSlots) {
		t.Errorf("acquiring where there are no slots: got %v, want ErrNoSlots", err)
	}
}

func equalSettlements(a, b gate.Settlement) bool {
	if a.Repeated != b.Repeated || len(a.Limits) != len(b.Limits) {
		return false
	}
	for i := range a.Limits {
		if a.Limits[i] != b.Limits[i] {
			return false
		}
	}
	return true
}

// TestSlotWithoutHoldIsAnError: a caller that takes a slot and cannot hold it gets an error that says what to do, even if another
// policy has the in-flight limit; a key without an in-flight limit is decided.
func TestSlotWithoutHoldIsAnError(t *testing.T) {
	p := policyOf("slots", "2 in-flight ttl=30s")
	p.Overrides = []config.Override{{Key: "vip", Limits: limits("5/1h")}}
	p.Allow.Keys = []string{"friend"}
	g := newGate(t, sameStores(memory(t, newClock())), gate.Options{}, policyOf("plain", "5/1h"), p)
	req := gate.Request{Policy: "slots", Key: "ann", Cost: 1}
	r := httptest.NewRequest("GET", "/", nil)
	verdicts, errs := make([]gate.Verdict, 2), make([]error, 2)
	g.AllowBatch(ctx, []gate.Request{req, {Policy: "slots", Key: "vip", Cost: 1}}, verdicts, errs)
	_, allowed := g.Allow(ctx, req)
	_, upTo := g.AllowUpTo(ctx, req)
	_, charged := g.Charge(ctx, req)
	_, checked := g.CheckRequest(ctx, r)
	_, named := g.CheckPolicy(ctx, "slots", r)
	for how, err := range map[string]error{"allow": allowed, "up to": upTo, "charge": charged, "batch": errs[0], "check": checked, "check by name": named} {
		if !errors.Is(err, gate.ErrSlots) || !strings.Contains(err.Error(), `"slots"`) || !strings.Contains(err.Error(), "/v1/acquire") {
			t.Errorf("%s: got %v, want an ErrSlots that names the policy and /v1/acquire", how, err)
		}
	}
	if errs[1] != nil || !verdicts[1].Decision.Allowed {
		t.Errorf("an override without slots: got %+v, %v; want it allowed", verdicts[1], errs[1])
	}
	if v, err := g.Allow(ctx, gate.Request{Policy: "slots", Key: "friend", Cost: 1}); err != nil || !v.Decision.Allowed {
		t.Errorf("on the allow list: got %+v, %v; want it allowed", v, err)
	}
	if v, err := g.Peek(ctx, req); err != nil || v.Decision.Remaining != 2 {
		t.Errorf("peek: got %+v, %v; want 2 remaining", v, err)
	}
	if got := g.PoliciesWithSlots(); len(got) != 1 || got[0] != "slots" {
		t.Errorf("policies with slots: got %q, want slots", got)
	}
}

// TestHoldRequest: the slots of all policies that match a request are held together until it is released.
func TestHoldRequest(t *testing.T) {
	c := newClock()
	g := newGate(t, sameStores(memory(t, c)), gate.Options{}, policyOf("a", "1 in-flight ttl=30s"), policyOf("b", "5/1h"))
	r := httptest.NewRequest("GET", "/", nil)
	report := func(err error) { t.Error(err) }
	v, held, err := g.HoldRequest(ctx, r, report)
	if err != nil || !v.Decision.Allowed {
		t.Fatalf("got %+v, %v; want it admitted", v, err)
	}
	for range 2 {
		refused, none, err := g.HoldRequest(ctx, r, report)
		if err != nil || refused.Decision.Allowed || refused.Policy != "a" {
			t.Errorf("a second of 1: got %+v, %v; want a denial by a", refused, err)
		}
		none.Release(ctx, report)
	}
	held.Release(ctx, report)
	v, held, err = g.HoldRequest(ctx, r, report)
	if err != nil || !v.Decision.Allowed || v.Decision.Answers[1].Remaining != 3 {
		t.Errorf("after the release: got %+v, %v; want it admitted, and 3 of b left", v, err)
	}
	held.Release(ctx, report)
	held.Release(ctx, report) // does nothing
	if err := g.Drain(ctx); err != nil {
		t.Error(err)
	}
}
