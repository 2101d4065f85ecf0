package pgstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// twin asks the store and the rule in Go the same things. The requests of one moment go to the store together: it decides
// them in order, and many at once are quick.
type twin struct {
	store   *Store
	now     slidegate.Micros
	states  map[string]*rule.State // by address
	batch   []slidegate.Request
	want    [][]slidegate.Answer
	decided int
}

func newTwin() *twin { return &twin{states: map[string]*rule.State{}} }

// clock is the store's.
func (w *twin) clock() slidegate.Micros { return w.now }

func (w *twin) state(limit *slidegate.BoundLimit, group, key string) *rule.State {
	address := fmt.Sprintf("%q %q %q", limit.Prefix(), group, key)
	if w.states[address] == nil {
		w.states[address] = &rule.State{}
	}
	return w.states[address]
}

// ask asks the rule at once and the store at the next compare. It returns the rule's answers.
func (w *twin) ask(op slidegate.Op, group string, charges ...slidegate.Charge) []slidegate.Answer {
	items := make([]rule.Item, len(charges))
	for i, charge := range charges {
		items[i] = rule.Item{
			Limit: charge.Limit.Rule(), State: w.state(charge.Limit, group, charge.Key), Cost: charge.Cost, At: charge.At,
		}
	}
	want := make([]slidegate.Answer, len(charges))
	rule.Decide(op, items, w.now, want)
	w.want = append(w.want, want)
	w.batch = append(w.batch, slidegate.Request{
		Op: op, Group: group, Charges: charges, Answers: make([]slidegate.Answer, len(charges)),
	})
	return want
}

// compare asks the store what the rule was asked since the last time, and returns what differs.
func (w *twin) compare() error {
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
					w.now, i+1, len(batch), j+1, describe(&batch[i]), got, want[i][j])
			}
		}
	}
	return nil
}

func describe(r *slidegate.Request) string {
	text := fmt.Sprintf("op %d", r.Op)
	for _, c := range r.Charges {
		text += fmt.Sprintf(" [%d of %+v, key %q, at %d]", c.Cost, *c.Limit.Rule(), c.Key, c.At)
	}
	return text
}

// bind binds a limit that is right.
func bind(t testing.TB, namespace string, limit slidegate.Limit) *slidegate.BoundLimit {
	t.Helper()
	bound, err := slidegate.Bind(namespace, limit)
	if err != nil {
		t.Fatal(err)
	}
	return bound
}
