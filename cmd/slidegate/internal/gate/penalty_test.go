package gate_test

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
)

// Explain reports a penalty, and Reset ends it.
func TestPenalty(t *testing.T) {
	c := newClock()
	p := richPolicy()
	p.Limits, p.Penalty = limits("1/1m fixed-window"), 10*time.Minute
	g := newGate(t, memory(t, c), gate.Options{}, p)
	req := gate.Request{Key: "ann", Address: netip.MustParseAddr("198.51.100.1"), Cost: 1}
	mustAllow(t, g, req)
	if v, err := g.Do(ctx, gate.Allow, req); err != nil || !v.Refused || v.Decision.RetryAfter != 10*time.Minute {
		t.Errorf("the excess request: got %+v, %v; want a refusal", v, err)
	}
	c.Advance(120_000_000)
	e, err := g.Explain(ctx, req)
	text, _ := json.Marshal(e)
	const want = `{"policy":"api","key":"ann","by":"limits","allowed":false,"refused":true,"shadow":false,"failure":"local","source":"store","penalty_us":480000000,` +
		`"limits":[{"limit":"1/1m fixed-window","allowed":false,"quota":1,"remaining":0,"retry_after_us":480000000,"reset_after_us":480000000}]}`
	if err != nil || string(text) != want {
		t.Errorf("got %s (%v), want\n%s", text, err, want)
	}
	if _, err := g.Do(ctx, gate.Reset, req); err != nil {
		t.Fatal(err)
	}
	mustAllow(t, g, req)
}
