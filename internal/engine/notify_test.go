package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// notifying is a Set over a memory store whose crossings are recorded.
type notifying struct {
	t       *testing.T
	set     *engine.Set
	now     rule.Micros
	crossed []string
}

func newNotifying(t *testing.T, specs ...engine.Spec) *notifying {
	n := &notifying{t: t, now: 1_767_000_000e6}
	st, err := memstore.New(memstore.Options{Now: func() rule.Micros { return n.now }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range specs {
		specs[i].Crossed = func(key string, limit *store.Limit, percent int) {
			n.crossed = append(n.crossed, fmt.Sprintf("%s %s %d%%", key, limit.Label(), percent))
		}
	}
	if n.set, err = engine.NewOver(st, specs, engine.Options{}); err != nil {
		t.Fatal(err)
	}
	return n
}

// expect checks what was crossed since the last call.
func (n *notifying) expect(what string, want ...string) {
	n.t.Helper()
	if !slices.Equal(n.crossed, want) {
		n.t.Errorf("%s: got %q, want %q", what, n.crossed, want)
	}
	n.crossed = nil
}

func (n *notifying) decide(op rule.Op, cost int64) (d policy.Decision) {
	n.set.Decide(context.Background(), op, &engine.Part{Key: "ann", Cost: cost}, &d)
	return d
}

func thresholds(limit slidegate.Limit, percents ...int) (all []policy.Threshold) {
	for _, p := range percents {
		all = append(all, policy.Threshold{Limit: limit, Percent: p})
	}
	return all
}

// A threshold is crossed by the decision that takes the usage from below to it or above, and by no other.
func TestCrossings(t *testing.T) {
	limit := slidegate.Limit{Quota: 10, Window: time.Minute}
	n := newNotifying(t, engine.Spec{Name: "api", Limits: []slidegate.Limit{limit}, Notify: thresholds(limit, 75, 100)})
	n.decide(rule.Take, 7)
	n.decide(rule.Peek, 1)
	n.expect("7 of 10")
	n.decide(rule.Take, 1)
	n.expect("8 of 10", "ann 10/1m 75%")
	n.decide(rule.Take, 1)
	n.decide(rule.Take, 5) // refused
	n.expect("9 of 10")
	n.decide(rule.Take, 1)
	n.expect("10 of 10", "ann 10/1m 100%")
	n.decide(rule.Take, 1)
	n.decide(rule.GiveBack, 5)
	n.expect("5 of 10")
	n.decide(rule.TakeUpTo, 100)
	n.expect("10 of 10 again", "ann 10/1m 75%", "ann 10/1m 100%")
	n.now += 60e6
	n.decide(rule.Charge, 25)
	n.expect("25 of 10", "ann 10/1m 75%", "ann 10/1m 100%")
	n.now += 120e6
	n.decide(rule.Take, 1)
	n.expect("1 of 10")
}

// A call that is sent again crosses nothing, whatever others have returned or charged meanwhile.
func TestRepeatedCallCrossesNothing(t *testing.T) {
	limit, other := slidegate.Limit{Quota: 10, Window: time.Minute}, slidegate.Limit{Quota: 100, Window: time.Minute, Name: "other"}
	for name, limits := range map[string][]slidegate.Limit{"one limit": {limit}, "several limits": {limit, other}} {
		n := newNotifying(t, engine.Spec{Name: "api", Limits: limits, Notify: thresholds(limit, 80)})
		call := func() (d policy.Decision) {
			n.set.Decide(context.Background(), rule.Take, &engine.Part{Key: "ann", Cost: 8, ID: "o1"}, &d)
			return d
		}
		call()
		n.expect(name, "ann 10/1m 80%")
		for range 2 {
			if d := call(); d.Decision.Flags&rule.Repeated == 0 {
				t.Fatalf("%s: the call was not recognized: %+v", name, d)
			}
		}
		n.decide(rule.Take, 1)
		call()
		n.expect(name + ", the call again")
	}
}

// Each of several limits has its own thresholds; a bucket's are those of its burst, and a shadow policy has them too.
func TestCrossingsOfSeveralLimits(t *testing.T) {
	log, bucket := slidegate.Limit{Quota: 10, Window: time.Minute}, slidegate.Limit{Quota: 2, Window: time.Second, Algorithm: slidegate.TokenBucket, Burst: 20, Name: "burst"}
	n := newNotifying(t,
		engine.Spec{Name: "api", Limits: []slidegate.Limit{log, bucket}, Notify: append(thresholds(bucket, 20, 40), thresholds(log, 50)...)},
		engine.Spec{Name: "shadow", Shadow: true, Limits: []slidegate.Limit{log}, Notify: thresholds(log, 60)})
	request := func(cost int64) {
		tx := n.set.Begin()
		defer tx.End()
		tx.Add(engine.Part{Key: "ann", Cost: cost})
		tx.Add(engine.Part{Policy: 1, Key: "ann", Cost: cost})
		var d policy.Decision
		tx.Decide(context.Background(), rule.Take, &d)
	}
	request(4)
	n.expect("4", "ann burst 20%")
	request(1)
	n.expect("5", "ann 10/1m 50%")
	request(3)
	n.expect("8", "ann burst 40%", "ann 10/1m 60%")
	request(5)
	n.expect("refused by the log, and the shadow policy too")
}

// Overrides have the thresholds of their own limits; batches count too.
func TestCrossingsOfOthersLimits(t *testing.T) {
	own, more := slidegate.Limit{Quota: 10, Window: time.Minute}, slidegate.Limit{Quota: 100, Window: time.Minute}
	n := newNotifying(t, engine.Spec{
		Name: "api", Limits: []slidegate.Limit{own}, Overrides: []policy.Override{{Key: "ann", Limits: []slidegate.Limit{more}}},
		Notify: append(thresholds(own, 100), thresholds(more, 20)...),
	})
	parts := make([]engine.Part, 21)
	for i := range parts {
		parts[i] = engine.Part{Key: "ann", Cost: 1}
	}
	n.set.DecideBatch(context.Background(), parts, make([]policy.Decision, len(parts)))
	n.expect("21 of 100", "ann 100/1m 20%")
}

// The limits of a ruling have no thresholds, even if they are equal to the policy's own, and neither have settlements under it.
func TestNoCrossingsOfRulings(t *testing.T) {
	limit := slidegate.Limit{Quota: 10, Window: time.Minute}
	n := newNotifying(t, engine.Spec{Name: "api", Limits: []slidegate.Limit{limit}, Notify: thresholds(limit, 80)})
	rulings := []engine.Ruling{{Key: "ann", Limits: []slidegate.Limit{limit}}}
	settle := func() {
		bound := n.set.BoundLimits(0)[0]
		n.set.NoteSettled(0, bound, "ann", rule.Answer{Allowed: true, Granted: -2, Remaining: 1, At: n.now})
	}
	if err := n.set.SetRulings(0, rulings); err != nil {
		t.Fatal(err)
	}
	n.decide(rule.Take, 9)
	settle()
	n.expect("under a ruling")
	if err := n.set.SetRulings(0, nil); err != nil {
		t.Fatal(err)
	}
	settle()
	n.decide(rule.GiveBack, 9)
	n.decide(rule.Take, 8)
	n.expect("without it", "ann 10/1m 80%", "ann 10/1m 80%")
}
