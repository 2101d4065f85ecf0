package porttest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
)

// Open opens a store with the test's clock.
type Open func(t testing.TB, now func() rule.Micros) store.Store

// Twin sends the same requests to a store and to the rule in Go. The requests of one time go to the store together: it
// decides them in order, and a batch is quick. Call NewTwin; a Twin is not safe for concurrent use.
type Twin struct {
	Now    rule.Micros // the store's clock
	store  store.Store
	latest rule.Micros            // the latest time of a request to the store
	states map[string]*rule.State // by address
	memos  map[string][]int64     // what settlements and calls did, by address and ID
	// settledAt is the time of the last of them, and latestSettled the latest of all.
	settledAt, latestSettled rule.Micros
	batch                    []store.Request
	want                     [][]rule.Answer
	decided                  int
}

// NewTwin opens a store whose clock is Now of the twin.
func NewTwin(t testing.TB, open Open) *Twin {
	t.Helper()
	w := &Twin{states: map[string]*rule.State{}, memos: map[string][]int64{}}
	w.store = open(t, func() rule.Micros { return w.Now })
	return w
}

func (w *Twin) state(limit *store.Limit, group, key string) *rule.State {
	address := fmt.Sprintf("%q %q %q", limit.Prefix(), group, key)
	if w.states[address] == nil {
		w.states[address] = &rule.State{}
	}
	return w.states[address]
}

// Apply applies a request to the rule immediately and to the store at the next Compare. It returns the rule's answers.
func (w *Twin) Apply(op rule.Op, group string, charges ...store.Charge) []rule.Answer {
	return w.ApplyAs(0, op, group, charges...)
}

// ApplyAs is Apply for a reservation.
func (w *Twin) ApplyAs(id rule.ID, op rule.Op, group string, charges ...store.Charge) []rule.Answer {
	return w.Send(store.Request{Op: op, Group: group, ID: id, Charges: charges})
}

// Send is Apply for any request. The twin remembers settlements and calls forever; a store must do so for as long as Memory of
// the request returns.
func (w *Twin) Send(r store.Request) []rule.Answer {
	items := make([]rule.Item, len(r.Charges))
	for i, c := range r.Charges {
		items[i] = rule.Item{
			Limit: c.Limit.Rule(), State: w.state(c.Limit, r.Group, c.Key), Cost: c.Cost, Used: c.Used, At: c.At, ID: r.ID, Hold: r.Hold,
		}
	}
	want := make([]rule.Answer, len(r.Charges))
	if r.Op == rule.Settle || r.Once {
		name := fmt.Sprintf("%q %q %q %d", r.Charges[0].Limit.Prefix(), r.Group, r.Charges[0].Key, r.ID)
		record, known := w.memos[name]
		memo := rule.Memo{Known: known, Record: slices.Clone(record)}
		w.settledAt = rule.SettledAt(items, w.Now)
		w.latestSettled = max(w.latestSettled, w.settledAt)
		if rule.DecideOnce(r.Op, r.Once, items, &memo, w.Now, want); memo.Changed {
			w.memos[name] = memo.Record
		}
	} else {
		rule.Decide(r.Op, items, w.Now, want)
	}
	r.Answers = make([]rule.Answer, len(r.Charges))
	w.want, w.batch = append(w.want, want), append(w.batch, r)
	return want
}

// Compare sends the store the requests since the last call, and returns the differences from the rule.
func (w *Twin) Compare() error {
	batch, want := w.batch, w.want
	w.batch, w.want = nil, nil
	if err := w.store.Apply(context.Background(), batch); err != nil {
		return err
	}
	for i := range batch {
		for j, got := range batch[i].Answers {
			w.decided++
			if got != want[i][j] {
				return fmt.Errorf("at %d, request %d of %d, charge %d: %s\n store: %+v\n rule:  %+v",
					w.Now, i+1, len(batch), j+1, describe(&batch[i]), got, want[i][j])
			}
		}
	}
	return nil
}

func describe(r *store.Request) string {
	text := fmt.Sprintf("%s as %d (hold %v, once %v)", r.Op, r.ID, r.Hold, r.Once)
	for _, c := range r.Charges {
		text += fmt.Sprintf(" [%d (used %d) of %+v, key %q, at %d]", c.Cost, c.Used, *c.Limit.Rule(), c.Key, c.At)
	}
	return text
}

// Bind binds a valid limit.
func Bind(t testing.TB, namespace string, limit slidegate.Limit) *store.Limit {
	t.Helper()
	return kit.Must(adapter.Bind(namespace, limit))(t)
}
