package porttest

import (
	"context"
	"fmt"
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
	memos  map[string]memo        // what is remembered, by address and ID
	// latestKnown is the latest time by which something is remembered.
	latestKnown rule.Micros
	batch       []store.Request
	want        [][]rule.Answer
	decided     int
}

// memo is what is remembered of an ID, and until when a store must know it.
type memo struct {
	record []int64
	until  rule.Micros
}

// NewTwin opens a store whose clock is Now of the twin.
func NewTwin(t testing.TB, open Open) *Twin {
	t.Helper()
	w := &Twin{states: map[string]*rule.State{}, memos: map[string]memo{}}
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

// Send is Apply for any request. The twin remembers an ID forever; see Knows.
func (w *Twin) Send(r store.Request) []rule.Answer {
	items := make([]rule.Item, len(r.Charges))
	for i, c := range r.Charges {
		items[i] = rule.Item{
			Limit: c.Limit.Rule(), State: w.state(c.Limit, r.Group, c.Key), Cost: c.Cost, Used: c.Used, At: c.At, ID: r.ID, Hold: r.Hold,
		}
	}
	want := make([]rule.Answer, len(r.Charges))
	if r.Op == rule.Settle || r.Once {
		w.once(&r, items, want)
	} else {
		rule.Decide(r.Op, items, w.Now, want)
	}
	r.Answers = make([]rule.Answer, len(r.Charges))
	w.want, w.batch = append(w.want, want), append(w.batch, r)
	return want
}

// once decides a settlement, or a call that counts once.
func (w *Twin) once(r *store.Request, items []rule.Item, want []rule.Answer) {
	memory, _ := r.Memory()
	name := memoName(r)
	known, ok := w.memos[name]
	m := rule.Memo{Known: ok && memory > 0, Record: known.record}
	at := rule.SettledAt(items, w.Now)
	if rule.DecideOnce(r.Op, r.Once, items, &m, w.Now, want); m.Changed && memory > 0 {
		w.latestKnown = max(w.latestKnown, at)
		w.memos[name] = memo{m.Record, max(known.until, at+memory)}
	}
}

// Knows reports whether a store must decide a request as the twin does: if it is one whose ID was remembered before, a store may have
// forgotten that after a while.
func (w *Twin) Knows(r *store.Request) bool {
	known, ok := w.memos[memoName(r)]
	return !ok || max(w.Now, w.latest, w.latestKnown) < known.until
}

func memoName(r *store.Request) string {
	return fmt.Sprintf("%q %q %q %d", r.Charges[0].Limit.Prefix(), r.Group, r.Charges[0].Key, r.ID)
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
	text := fmt.Sprintf("%s as %d, hold %v, once %v", r.Op, r.ID, r.Hold, r.Once)
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
