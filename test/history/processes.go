package history

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/workers"
)

// Recording is a history that processes record while faults occur.
type Recording struct {
	Processes []*workers.Worker // that run Job
	Seed      uint64
	Length    time.Duration
	Faults    map[string]int                     // how often each occurred, for the log
	Disturb   func(orders []Task, end time.Time) // causes faults until end
	Enough    func() bool                        // whether enough of them have occurred
	Forgets   []Event                            // when the store forgot everything
}

// Run records until enough has happened for the history to be meaningful: a busy machine may need several intervals.
func (r *Recording) Run(t *testing.T) (all []Event) {
	t.Helper()
	for start, stretch := time.Now(), 0; ; stretch++ {
		end := time.Now().Add(r.Length)
		orders := Tasks(len(r.Processes), stretch, r.Seed, r.Length, end)
		for i, order := range orders {
			r.Processes[i].Send(t, order)
		}
		r.Disturb(orders, end)
		all = append(all, Merge(workers.ReceiveAll[[]Event](t, r.Processes))...)
		s := Summarize(all)
		if r.Enough() && s.Answered >= 200 && s.Admitted >= 20 && s.Answered < s.Requests && AllowsPlanting(append(slices.Clip(all), r.Forgets...)) {
			t.Logf("%+v; %v", s, r.Faults)
			return all
		}
		if time.Since(start) > r.Length+time.Minute {
			t.Fatalf("too little happened for the history to be meaningful: %+v; %v", s, r.Faults)
		}
	}
}

// Tasks returns one order per process to send requests until end, for one interval of a history of the given length. Each
// interval has its own keys: once a request for a key was lost, little can be checked about the key.
func Tasks(processes, stretch int, seed uint64, length time.Duration, end time.Time) []Task {
	keys := max(8, int(4*length.Seconds())) // so that few requests for one key are left unanswered
	orders := make([]Task, processes)
	for i := range orders {
		orders[i] = Task{Seed: seed + uint64(stretch*processes+i), Until: end.UnixNano(), First: stretch * keys, Keys: keys}
	}
	return orders
}

// Job returns a function for a process that carries out an Order in JSON, and returns the recorded events.
func Job(store store.Store, alive func(context.Context) error) func(order []byte) (any, error) {
	return func(text []byte) (any, error) {
		var order Task
		if err := json.Unmarshal(text, &order); err != nil {
			return nil, err
		}
		return Record(store, alive, order)
	}
}

// Merge combines the events that several processes recorded.
func Merge(recorded [][]Event) (all []Event) {
	for i, events := range recorded {
		for _, e := range events {
			e.Client = i
			all = append(all, e)
		}
	}
	return all
}

// Verify fails a test if its history is wrong, or if the check would not detect planted changes.
func Verify(t *testing.T, seed uint64, events []Event) {
	t.Helper()
	for _, err := range append(CheckPlanted(events), Check(events)) {
		switch {
		case errors.Is(err, ErrUndecided): // on a busy machine
			t.Logf("UNDECIDED: %v", err)
		case err != nil:
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// Used returns how many units a store counts for all limits and keys of an order.
func Used(st store.Store, order Task) (units int64, err error) {
	limits, err := bound()
	if err != nil {
		return 0, err
	}
	var batch []store.Request
	for key := order.First; key < order.First+order.Keys; key++ {
		for _, limit := range limits {
			charges := []store.Charge{{Limit: limit, Key: keyName(key)}}
			batch = append(batch, store.Request{Op: rule.Peek, Charges: charges, Answers: make([]rule.Answer, 1)})
		}
	}
	if err := st.Apply(context.Background(), batch); err != nil {
		return 0, err
	}
	for i := range batch {
		units += batch[i].Charges[0].Limit.Rule().Quota - batch[i].Answers[0].Remaining
	}
	return units, nil
}
