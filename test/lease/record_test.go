package lease_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/layer/lease"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// happening is what was done with units of a limit.
type happening string

const (
	spent    happening = "spent"    // admitted from a lease
	straight happening = "straight" // admitted by the store
	canceled happening = "canceled" // a caller is about to return what was admitted
	granted  happening = "granted"  // a lease was charged
	back     happening = "back"     // the layer is about to return what was granted
	returned happening = "returned" // the store has answered to that
)

// record is one event that a process recorded. Times are nanoseconds of the machine's wall clock, which all processes
// share, and which the server's clock is compared with.
type record struct {
	What    happening
	Process int `json:"-"`
	Limit   string
	Units   int64
	At      rule.Micros // the store's time of the charge
	Sent    int64       // before the store was called
	Now     int64       // after it had answered; for spent, the reading that the spend was checked against
}

// journal is where a process records what it does, before any caller gets it. It outlives a process that is killed.
type journal struct {
	file *os.File
	err  atomic.Value
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &journal{file: file}, err
}

func (j *journal) note(r record) {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		j.err.Store(err)
	}
}

// read returns what a process recorded. The last line of one that was killed may be cut off: no caller got what it
// describes.
func read(t testing.TB, path string, process int) (all []record) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r record
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		r.Process = process
		all = append(all, r)
	}
	return all
}

// watched is a store whose answers are recorded before the layer above gets them.
type watched struct {
	store.Store
	journal *journal
}

func (w watched) Apply(ctx context.Context, batch []store.Request) error {
	sent := time.Now().UnixNano()
	for i := range batch {
		if batch[i].Op == rule.GiveBack {
			for k, c := range batch[i].Charges {
				what := back
				if batch[i].ID != 0 { // the layer's own have none
					what = canceled
				}
				w.note(what, &batch[i], k, c.Cost, c.At, sent)
			}
		}
	}
	err := w.Store.Apply(ctx, batch)
	for i := range batch {
		r := &batch[i]
		if r.Err != nil {
			continue
		}
		for k, a := range r.Answers {
			switch {
			case r.Op == rule.TakeUpTo && a.Granted > 0:
				w.note(granted, r, k, a.Granted, a.At, sent)
			case r.Op == rule.Take && a.Granted > 0: // a charge of a denied request may be allowed by itself
				w.note(straight, r, k, a.Granted, a.At, sent)
			case r.Op == rule.GiveBack && r.ID == 0:
				w.note(returned, r, k, r.Charges[k].Cost, r.Charges[k].At, sent)
			}
		}
	}
	return err
}

func (w watched) note(what happening, r *store.Request, k int, units int64, at rule.Micros, sent int64) {
	w.journal.note(record{What: what, Limit: r.Charges[k].Limit.Name(), Units: units, At: at, Sent: sent, Now: time.Now().UnixNano()})
}

// watch returns a store with leases over another, whose spends are recorded too.
//
// The layer's clock is its own, as for users, and begins at 0 while it is created. Its readings are counted from just
// before that: spends are recorded as earlier than they were, by less than doubt.
func (j *journal) watch(inner store.Store) (s *lease.Store, err error) {
	var begun int64
	note := func(s lease.Spend) {
		end := begun + int64(s.End)
		j.note(record{
			What: spent, Limit: s.Limit.Name(), Units: s.Units, At: s.At,
			Sent: end - lifeOf(s.Limit.Rule(), s.At), Now: begun + int64(s.Now),
		})
	}
	for range 1_000 { // a busy machine may run other programs while it is created
		begun = time.Now().UnixNano()
		s, err = lease.New(watched{inner, j}, lease.Options{MaxKeys: 64, Spent: note})
		if err != nil || time.Now().UnixNano()-begun < int64(doubt) {
			return s, err
		}
	}
	return nil, errors.New("creating a layer always takes too long")
}

// doubt is how much later than recorded a spend can have been.
const doubt = 500 * time.Microsecond

// lifeOf returns how long a lease that was charged at a time is spent, at most, counted from before it was requested.
func lifeOf(r *rule.Limit, at rule.Micros) int64 {
	_, end := r.Part(at)
	return int64(min(end-at, 1_000_000)-1) * 999
}
