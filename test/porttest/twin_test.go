package porttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// wrongStore is a store that changes the last answer of each batch, or fails.
type wrongStore struct {
	store.Store
	change func(*rule.Answer)
	fault  error
}

func (s wrongStore) Apply(ctx context.Context, batch []store.Request) error {
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

// ruleStore is a store that runs the rule itself. A forgetful one drops expired states as soon as possible.
type ruleStore struct {
	store.Store
	now       func() rule.Micros
	forgetful bool
	states    map[string]*rule.State
	memos     map[string]knownSettlement
}

// knownSettlement is a settlement or a call, and the time until which it is known.
type knownSettlement struct {
	record []int64
	until  rule.Micros
}

func (k ruleStore) Apply(_ context.Context, batch []store.Request) error {
	for _, r := range batch {
		var items []rule.Item
		for _, c := range r.Charges {
			address := fmt.Sprintf("%q %q %q", c.Limit.Prefix(), r.Group, c.Key)
			s := k.states[address]
			if s == nil || k.forgetful && c.Limit.Rule().Expires(s) <= k.now() {
				s = &rule.State{}
				k.states[address] = s
			}
			items = append(items, rule.Item{Limit: c.Limit.Rule(), State: s, Cost: c.Cost, Used: c.Used, At: c.At, ID: r.ID, Hold: r.Hold})
		}
		if r.Op == rule.Settle || r.Once {
			k.once(&r, items)
		} else {
			rule.Decide(r.Op, items, k.now(), r.Answers)
		}
	}
	return nil
}

func (k ruleStore) once(r *store.Request, items []rule.Item) {
	name := fmt.Sprintf("%q %q %q %d", r.Charges[0].Limit.Prefix(), r.Group, r.Charges[0].Key, r.ID)
	known, ok := k.memos[name]
	memo := rule.Memo{Known: ok && (!k.forgetful || k.now() < known.until), Record: slices.Clone(known.record)}
	at := rule.SettledAt(items, k.now())
	if rule.DecideOnce(r.Op, r.Once, items, &memo, k.now(), r.Answers); memo.Changed {
		memory, _ := r.Memory()
		k.memos[name] = knownSettlement{memo.Record, max(known.until, at+memory)}
	}
}

// openRule opens stores that run the rule themselves.
func openRule(forgetful bool) Open {
	return func(t testing.TB, now func() rule.Micros) store.Store {
		t.Helper() // any store can answer the other requests
		return ruleStore{openMemory(t, now), now, forgetful, map[string]*rule.State{}, map[string]knownSettlement{}}
	}
}

// A store that runs the rule itself equals the rule, whether it forgets what is over or not.
func TestStoreThatRunsTheRuleMatches(t *testing.T) {
	t.Parallel()
	for _, forgetful := range []bool{false, true} {
		open := openRule(forgetful)
		SameAsRule(t, open, Options{})
		SameAsRule(t, open, Options{OneKey: true, Algorithms: []rule.Algorithm{rule.SlidingLog}})
		SameAsRule(t, open, Options{Algorithms: []rule.Algorithm{rule.DefaultAlgorithm}})
	}
}

func TestChangedPlans(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]Open{"memory": openMemory, "rule": openRule(false)} {
		t.Run(name, func(t *testing.T) { ChangedPlans(t, open) })
	}
}

func TestHoldsOfJumps(t *testing.T) {
	t.Parallel()
	HoldsOfJumps(t, openRule(false))
}

// The twin detects any difference in an answer, however small, and a missing answer.
func TestTwinDetectsDifferences(t *testing.T) {
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
		"next after":  {change: func(a *rule.Answer) { a.NextAfter++ }, found: true},
		"reset after": {change: func(a *rule.Answer) { a.ResetAfter-- }, found: true},
		"at":          {change: func(a *rule.Answer) { a.At++ }, found: true},
		"an error":    {fault: fault, found: true},
	} {
		w := NewTwin(t, func(t testing.TB, now func() rule.Micros) store.Store {
			t.Helper()
			return wrongStore{openMemory(t, now), c.change, c.fault}
		})
		w.Now = 1_767_000_000e6
		limit := Bind(t, "twin", slidegate.Limit{Name: "window", Algorithm: slidegate.SlidingWindow, Quota: 10, Window: time.Hour})
		w.Apply(rule.Take, "", store.Charge{Limit: limit, Key: "a", Cost: 3})
		w.Apply(rule.Take, "", store.Charge{Limit: limit, Key: "a", Cost: 4}, store.Charge{Limit: limit, Key: "b", Cost: 1})
		if err := w.Compare(); (err != nil) != c.found || c.fault != nil && !errors.Is(err, c.fault) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
