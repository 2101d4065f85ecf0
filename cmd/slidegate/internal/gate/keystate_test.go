package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/rulings"
	"github.com/slidegate/slidegate/store"
)

// What the store keeps of a key, under the limits that decide it, worked out by hand.
func TestState(t *testing.T) {
	c := newClock() // 1,800,000,000s is a whole number of minutes and of hours
	p := richPolicy()
	p.Limits = limits("2/1h fixed-window", "9/10s sliding-log name=burst")
	g := newGate(t, memory(t, c), gate.Options{}, p)
	mustAllow(t, g, gate.Request{Key: "ann", Cost: 2})
	c.Advance(4_000_000)
	ended := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	log := []rulings.Ruling{
		{Policy: "api", Key: "ann", Kind: rulings.Clear, Who: "eve", At: ended}, {Policy: "api", Key: "ann", Kind: rulings.Block, Who: "eve", At: ended},
		{Policy: "api", Key: "anna", Kind: rulings.Block, Who: "eve", At: ended}, {Policy: "other", Key: "ann", Kind: rulings.Block, Who: "eve", At: ended},
	}
	for _, x := range []struct{ key, want string }{
		{"ann", `{"policy":"api","key":"ann","by":"limits","limits":[` +
			`{"text":"2/1h fixed-window","quota":2,"capacity":2,"algorithm":"fixed-window","window_us":3600000000,"now":1800000004000000,"form":"parts",` +
			`"units":[{"from":1800000000000000,"to":1800003600000000,"units":2,"counts":2,"frees":1800003600000000}],"holds":[],` +
			`"used":2,"remaining":0,"retry_after_us":3596000000,"reset_after_us":3596000000},` +
			`{"text":"9/10s sliding-log name=\"burst\"","name":"burst","quota":9,"capacity":9,"algorithm":"sliding-log","window_us":10000000,"now":1800000004000000,` +
			`"form":"log","units":[{"from":1800000000000000,"to":1800000000000000,"units":2,"counts":2,"frees":1800000010000000}],"holds":[],` +
			`"used":2,"remaining":7,"retry_after_us":0,"reset_after_us":6000000}],"history":[` +
			`{"policy":"api","key":"ann","kind":"clear","who":"eve","why":"","at":"2026-01-02T03:04:05Z"},` +
			`{"policy":"api","key":"ann","kind":"block","who":"eve","why":"","at":"2026-01-02T03:04:05Z"}]}`},
		{"vip-8", `{"policy":"api","key":"vip-8","by":"limits","override":"vip-*","limits":[` +
			`{"text":"3/1h","quota":3,"capacity":3,"algorithm":"default","window_us":3600000000,"now":1800000004000000,"form":"log","units":[],"holds":[],` +
			`"used":0,"remaining":3,"retry_after_us":0,"reset_after_us":0}],"history":[]}`},
		{"evil-twin", `{"policy":"api","key":"evil-twin","by":"block_list","list":"key:evil-*","limits":[],"history":[]}`},
	} {
		k, err := g.State(ctx, gate.Request{Key: x.key, Cost: 1}, log)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(k)
		if err != nil || string(got) != x.want {
			t.Errorf("%s: got\n%s (%v), want\n%s", x.key, got, err, x.want)
		}
	}
}

// A key under a ruling has the ruling's limits, and a penalty is said.
func TestStateSaysWhatDecides(t *testing.T) {
	c := newClock()
	kept := policyOf("api", "1/1h fixed-window")
	kept.Penalty = time.Minute
	g := newGate(t, memory(t, c), gate.Options{}, kept)
	mustAllow(t, g, gate.Request{Policy: "api", Key: "ann", Cost: 1})
	if d, err := g.Do(ctx, gate.Allow, gate.Request{Policy: "api", Key: "ann", Cost: 1}); err != nil || d.Decision.Allowed {
		t.Fatalf("got %+v, %v, want a refusal", d, err)
	}
	c.Advance(1_000_000)
	if k, err := g.State(ctx, gate.Request{Policy: "api", Key: "ann"}, nil); err != nil || k.Penalty != 59_000_000 || k.Limits[0].Used != 1 {
		t.Errorf("got %+v, %v, want a penalty of 59s, and 1 used", k, err)
	}
	err := g.SetRulings([]rulings.Ruling{{Policy: "api", Key: "ann", Kind: rulings.Limits, Limits: []string{"5/1h fixed-window"}, Who: "eve"}})
	if err != nil {
		t.Fatal(err)
	}
	k, err := g.State(ctx, gate.Request{Policy: "api", Key: "ann"}, nil)
	if err != nil || k.Ruling == nil || k.Penalty != 0 || len(k.Limits) != 1 || k.Limits[0].Quota != 5 || k.Limits[0].Used != 1 {
		t.Errorf("got %+v, %v, want 1 of the ruling's 5 used, and no penalty", k, err)
	}
}

// The numbers are those of a peek at the same time, and asking for them changes none.
func TestStateEqualsPeek(t *testing.T) {
	c := newClock()
	g := newGate(t, memory(t, c), gate.Options{}, policyOf("api", "7/1m name=log", "300/1m name=parts", "10/1m segments=6 overlap=down name=down",
		"10/1m segments=1 name=pair", "9/1m fixed-window name=fixed", "5/1m token-bucket burst=8 name=bucket", "50/day name=day", "12/1m hold=20s name=held"))
	random := rand.New(rand.NewPCG(1, 2))
	for range 2_000 {
		c.Advance(rule.Micros(random.Int64N(20_000_000)))
		op, req := []gate.Op{gate.Allow, gate.Charge, gate.Refund, gate.Reserve}[random.IntN(4)], gate.Request{Key: "ann", Cost: 1 + random.Int64N(4), Reservation: &slidegate.Reservation{}}
		if random.IntN(100) == 0 {
			op = gate.Reset
		}
		if _, err := g.Do(ctx, op, req); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time checks that the first changed nothing
			e, err := g.Explain(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			k, err := g.State(ctx, req, nil)
			if err != nil || len(k.Limits) != len(e.Limits) {
				t.Fatalf("got %+v, %v, want the limits of %+v", k, err, e)
			}
			for i, got := range k.Limits {
				want, counts := e.Limits[i], int64(0)
				for _, u := range got.Units {
					counts += u.Counts
				}
				for _, h := range got.Holds {
					counts += h.Units
				}
				if got.Now != c.Now() || got.Text != want.Limit || got.Remaining != *want.Remaining || got.Used != counts || max(0, got.Capacity-got.Used) != got.Remaining ||
					int64(*got.RetryAfter) != *want.RetryAfterMicros || int64(got.ResetAfter) != want.ResetAfterMicros {
					t.Fatalf("%s: got %+v, want %+v", want.Limit, got, want)
				}
			}
		}
	}
}

// A store that returns no states is an error that says so, and so is one that does not answer.
func TestStateNeedsAnInspector(t *testing.T) {
	g := newGate(t, struct{ store.Store }{memory(t, newClock())}, gate.Options{}, policyOf("api", "2/1h"))
	if _, err := g.State(ctx, gate.Request{Key: "ann"}, nil); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
	g = newGate(t, memory(t, newClock()), gate.Options{}, policyOf("api", "2/1h"))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if k, err := g.State(ended, gate.Request{Key: "ann"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v, want the error of the context", k, err)
	}
}
