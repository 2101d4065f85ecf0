package gate_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
)

// Each request that stood in line is counted once, by what became of it; those that are decided at once are not counted.
func TestWaitsAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policyOf("p", "1/1s token-bucket")
		p.Wait = 1500 * time.Millisecond
		m, provider := newMeasured()
		g := newGate(t, memstore.NewDefault(), gate.Options{MeterProvider: provider}, p)
		start := time.Now()
		var all sync.WaitGroup
		for name, v := range map[string]struct {
			at, leaves, answered time.Duration
			allowed              bool
		}{
			"admitted at once":    {at: 0, answered: 0, allowed: true},
			"admitted in turn":    {at: 1 * time.Millisecond, answered: 1000 * time.Millisecond, allowed: true},
			"late at once":        {at: 2 * time.Millisecond, answered: 2 * time.Millisecond},
			"left":                {at: 600 * time.Millisecond, leaves: 1050 * time.Millisecond, answered: 1050 * time.Millisecond},
			"refused in its turn": {at: 1100 * time.Millisecond, answered: 2000 * time.Millisecond}, // somebody has charged 5
		} {
			all.Go(func() {
				testkit.Delay(v.at)
				with, cancel := context.WithCancel(t.Context())
				defer cancel()
				if v.leaves > 0 {
					time.AfterFunc(v.leaves-v.at, cancel)
				}
				d, _ := g.Do(with, gate.Allow, gate.Request{Key: "k", Cost: 1})
				if took := time.Since(start); d.Allowed != v.allowed || took != v.answered {
					t.Errorf("%s: allowed is %v after %v, want %v after %v", name, d.Allowed, took, v.allowed, v.answered)
				}
			})
		}
		testkit.Delay(1500 * time.Millisecond)
		if _, err := g.Do(t.Context(), gate.Charge, gate.Request{Key: "k", Cost: 5}); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		if d, err := g.Do(t.Context(), gate.Allow, gate.Request{Key: "k", Cost: 2}); err != nil || d.Allowed { // never: it does not wait
			t.Errorf("a cost above the quota: got %+v, %v", d, err)
		}
		got := m.read(t)
		for _, outcome := range []string{"admitted", "refused", "gave_up"} {
			if n := got["policy.waits{outcome="+outcome+",policy=p}"]; n != 1 {
				t.Errorf("%d waits were %s, want 1", n, outcome)
			}
		}
		// A refusal counts whether the line knew it at once or the store found it out. Somebody who left was not decided.
		for outcome, want := range map[string]int64{"admitted": 2, "refused": 3, "error": 0} {
			if n := got["policy.decisions{by=limits,outcome="+outcome+",policy=p}"]; n != want {
				t.Errorf("%d decisions were %s, want %d", n, outcome, want)
			}
		}
	})
}
