package porttest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// wrong is a store that changes each last answer of a batch, or fails.
type wrong struct {
	store.Store
	change func(*rule.Answer)
	fault  error
}

func (s wrong) Apply(ctx context.Context, batch []store.Request) error {
	if err := errors.Join(s.Store.Apply(ctx, batch), s.fault); err != nil {
		return err
	}
	answers := batch[len(batch)-1].Answers
	s.change(&answers[len(answers)-1])
	return nil
}

func openMemory(t testing.TB, now func() rule.Micros) store.Store {
	t.Helper()
	store, err := memstore.New(memstore.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// keeper is a store that runs the rule itself and never forgets. (memstore does not do: a state that is over and gone stays
// gone when the clock steps back, as it may by the contract.)
type keeper struct {
	store.Store
	now    func() rule.Micros
	states map[string]*rule.State
}

func (k keeper) Apply(_ context.Context, batch []store.Request) error {
	for _, r := range batch {
		var items []rule.Item
		for _, c := range r.Charges {
			address := fmt.Sprintf("%q %q %q", c.Limit.Prefix(), r.Group, c.Key)
			if k.states[address] == nil {
				k.states[address] = &rule.State{}
			}
			items = append(items, rule.Item{Limit: c.Limit.Rule(), State: k.states[address], Cost: c.Cost, At: c.At})
		}
		rule.Decide(r.Op, items, k.now(), r.Answers)
	}
	return nil
}

// A store that runs the rule itself is the same as the rule.
func TestRuleItself(t *testing.T) {
	t.Parallel()
	open := func(t testing.TB, now func() rule.Micros) store.Store {
		t.Helper()
		return keeper{openMemory(t, now), now, map[string]*rule.State{}} // what it is asked besides, any store can answer
	}
	SameAsRule(t, open, Options{})
	SameAsRule(t, open, Options{OneKey: true, Algorithms: []rule.Algorithm{rule.SlidingLog}})
}

// The twin finds whatever differs in an answer, however little, and an answer that did not come.
func TestTwinFinds(t *testing.T) {
	t.Parallel()
	fault := errors.New("no answer")
	for name, c := range map[string]struct {
		change func(*rule.Answer)
		fault  error
		found  bool
	}{
		"nothing":     {change: func(*rule.Answer) {}},
		"allowed":     {change: func(a *rule.Answer) { a.Allowed = !a.Allowed }, found: true},
		"flags":       {change: func(a *rule.Answer) { a.Flags ^= rule.ClockMoved }, found: true},
		"granted":     {change: func(a *rule.Answer) { a.Granted++ }, found: true},
		"remaining":   {change: func(a *rule.Answer) { a.Remaining-- }, found: true},
		"retry after": {change: func(a *rule.Answer) { a.RetryAfter++ }, found: true},
		"reset after": {change: func(a *rule.Answer) { a.ResetAfter-- }, found: true},
		"at":          {change: func(a *rule.Answer) { a.At++ }, found: true},
		"an error":    {fault: fault, found: true},
	} {
		w := NewTwin(t, func(t testing.TB, now func() rule.Micros) store.Store {
			t.Helper()
			return wrong{openMemory(t, now), c.change, c.fault}
		})
		w.Now = 1_767_000_000e6
		limit := Bind(t, "twin", slidegate.Limit{Name: "window", Quota: 10, Window: time.Hour})
		w.Ask(rule.Take, "", store.Charge{Limit: limit, Key: "a", Cost: 3})
		w.Ask(rule.Take, "", store.Charge{Limit: limit, Key: "a", Cost: 4}, store.Charge{Limit: limit, Key: "b", Cost: 1})
		if err := w.Compare(); (err != nil) != c.found || c.fault != nil && !errors.Is(err, c.fault) {
			t.Errorf("%s: found %v", name, err)
		}
	}
}
