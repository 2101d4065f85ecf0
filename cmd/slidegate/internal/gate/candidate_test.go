package gate_test

import (
	"maps"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/policy"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
)

func TestCandidate(t *testing.T) {
	p := policyOf("p", "3/1h")
	p.Candidate = limits("2/1h")
	p.Overrides = []policy.Override{{Key: "vip", Limits: limits("1/1h")}}
	m, provider := newMeasured()
	store := &recordingStore{Store: memory(t, newClock())}
	g := newGate(t, store, gate.Options{MeterProvider: provider}, p)
	for i := range 4 {
		v := mustAllow(t, g, gate.Request{Key: "ann", Cost: 1})
		if v.Decision.Allowed != (i < 3) || v.Decision.Quota != 3 || len(v.Limits) != 1 || v.Decision.Answers != nil {
			t.Errorf("request %d: got %+v, want allowed %v by the one limit of 3, without the candidate's answer", i, v, i < 3)
		}
	}
	if got := store.applies.Load(); got != 4 {
		t.Errorf("4 requests: got %d calls to the store, want 4 that include the candidate", got)
	}
	mustAllow(t, g, gate.Request{Key: "ann"})            // a check is decided by both
	mustAllow(t, g, gate.Request{Key: "vip", Cost: 1})   // the override still applies to the candidate
	mustAllow(t, g, gate.Request{Key: "bob", Cost: 3})   // more than the candidate can ever admit
	mustAllow(t, g, gate.Request{Key: "carol", Cost: 4}) // more than either can
	want := map[string]int64{
		"policy.decisions{by=limits,outcome=admitted,policy=p}":                       5,
		"policy.decisions{by=limits,outcome=refused,policy=p}":                        3,
		"policy.candidate.decisions{live_outcome=admitted,outcome=admitted,policy=p}": 2,
		"policy.candidate.decisions{live_outcome=admitted,outcome=refused,policy=p}":  2,
		"policy.candidate.decisions{live_outcome=refused,outcome=refused,policy=p}":   3,
		"policies{}": 1,
	}
	if got := m.read(t); !maps.Equal(got, want) {
		t.Errorf("metrics\n%v, want\n%v", got, want)
	}
}

// TestCandidateCountsRefusals: a candidate with a larger quota continues to count when the limits refuse.
func TestCandidateCountsRefusals(t *testing.T) {
	p := policyOf("p", "1/1h")
	p.Candidate = limits("5/1h")
	g := newGate(t, memory(t, newClock()), gate.Options{}, p)
	for range 4 {
		mustAllow(t, g, gate.Request{Key: "ann", Cost: 1})
	}
	left := func() int64 {
		t.Helper()
		e, err := g.Explain(ctx, gate.Request{Key: "ann", Cost: 1})
		if err != nil || len(e.Candidate) != 1 {
			t.Fatalf("explain: got %+v, %v; want one candidate", e, err)
		}
		return *e.Candidate[0].Remaining
	}
	if got := left(); got != 1 {
		t.Errorf("the candidate has %d of 5 left after 4 requests, want 1", got)
	}
	if _, err := g.Do(ctx, gate.Refund, gate.Request{Key: "ann", Cost: 1}); err != nil || left() != 2 {
		t.Errorf("after a refund the candidate has %d left, error %v; want 2", left(), err)
	}
	if _, _, err := g.Take(ctx, gate.Reserve, gate.Request{Key: "ann", Cost: 1}); err != nil || left() != 1 {
		t.Errorf("after a reservation the candidate has %d left, error %v; want 1", left(), err)
	}
	if _, err := g.Do(ctx, gate.Reset, gate.Request{Key: "ann"}); err != nil || left() != 5 {
		t.Errorf("after a reset the candidate has %d left, error %v; want 5", left(), err)
	}
}

func TestFailingCandidateIsIgnored(t *testing.T) {
	p := policyOf("p", "1/1h")
	p.Candidate = limits("1/1h")
	m, provider := newMeasured()
	store := &recordingStore{Store: memory(t, newClock())}
	g := newGate(t, store, gate.Options{MeterProvider: provider}, p)
	store.fail("/candidate")
	v, err := g.Do(ctx, gate.Allow, gate.Request{Key: "ann", Cost: 1})
	if err != nil || !v.Decision.Allowed {
		t.Errorf("allow: got %+v, %v; want it allowed", v, err)
	}
	if _, _, err := g.Take(ctx, gate.Reserve, gate.Request{Key: "bob", Cost: 1}); err != nil {
		t.Errorf("reserve: got %v, want no error", err)
	}
	if e, err := g.Explain(ctx, gate.Request{Key: "ann", Cost: 1}); err != nil || e.Candidate != nil || len(e.Limits) != 1 {
		t.Errorf("explain: got %+v, %v; want one limit and no candidate", e, err)
	}
	want := map[string]int64{"policy.decisions{by=limits,outcome=admitted,policy=p}": 2, "policies{}": 1}
	if got := m.read(t); !maps.Equal(got, want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
	store.fail("p") // all calls
	if _, err := g.Do(ctx, gate.Allow, gate.Request{Key: "ann", Cost: 1}); err != errStore {
		t.Errorf("got %v, want the store's error, %v", err, errStore)
	}
	if got := m.read(t)["policy.decisions{by=limits,outcome=error,policy=p}"]; got != 1 {
		t.Errorf("%d errors counted, want 1", got)
	}
}

// TestCandidateWithSlots: a candidate holds slots if requests are held, even if the policy itself has no in-flight
// limit.
func TestCandidateWithSlots(t *testing.T) {
	p := policyOf("p", "9/1h")
	p.Candidate = limits("1 in-flight ttl=30s")
	m, provider := newMeasured()
	g := newGate(t, memory(t, newClock()), gate.Options{MeterProvider: provider}, p)
	report := func(err error) { t.Error(err) }
	var running []gate.Hold
	for i := range 2 {
		v, held, err := g.HoldRequest(ctx, httptest.NewRequest("GET", "/", nil), report)
		if err != nil || !v.Decision.Allowed {
			t.Fatalf("request %d: got %+v, %v; want it admitted", i, v, err)
		}
		running = append(running, held)
	}
	for i := range running {
		running[i].Release(ctx, report)
	}
	_, held, _ := g.HoldRequest(ctx, httptest.NewRequest("GET", "/", nil), report)
	held.Release(ctx, report)
	got := m.read(t)
	for outcome, want := range map[string]int64{"admitted": 2, "refused": 1} {
		if n := got["policy.candidate.decisions{live_outcome=admitted,outcome="+outcome+",policy=p}"]; n != want {
			t.Errorf("the candidate %s %d, want %d: of two concurrent requests it admits one, and then the next", outcome, n, want)
		}
	}
	if own, names := gate.SlotPolicies(&config.File{Policies: []config.Policy{p}}); !slices.Equal(names, []string{"p"}) || own != nil {
		t.Errorf("got %q and %q, want p to have slots in its candidate alone", names, own)
	}
}
