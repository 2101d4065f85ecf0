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

	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/leases"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// eventKind is the kind of a record: what was done with units of a limit.
type eventKind string

const (
	spent     eventKind = "spent"    // admitted from a lease
	direct    eventKind = "straight" // admitted by the store
	canceled  eventKind = "canceled" // a caller is about to return what was admitted
	granted   eventKind = "granted"  // a lease was charged
	returning eventKind = "back"     // the layer is about to return what was granted
	returned  eventKind = "returned" // the store has answered the return
)

// record is one event that a process recorded. Times are nanoseconds of the machine's wall clock, which all processes
// share, and which the server's clock is compared with.
type record struct {
	What    eventKind
	Process int `json:"-"`
	Limit   string
	Units   int64
	At      rule.Micros // the store's time of the charge
	Sent    int64       // before the store was called
	Now     int64       // after it had answered; for spent, the reading that the spend was checked against
}

// journal is a file in which a process records units before any caller gets them. It survives if the process is killed.
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

// read returns what a process recorded. The last line of a killed process may be incomplete: no caller got the units of
// that line.
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

// recordingStore is a store whose answers are recorded before the layer above gets them.
type recordingStore struct {
	store.Store
	journal *journal
}

func (w recordingStore) Apply(ctx context.Context, batch []store.Request) error {
	sent := time.Now().UnixNano()
	for i := range batch {
		if batch[i].Op == rule.GiveBack {
			for k, c := range batch[i].Charges {
				what := returning
				if batch[i].ID != 0 { // requests of the layer itself have no ID
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
			case r.Op == rule.Take && a.Granted > 0: // one charge of a refused request may be allowed
				w.note(direct, r, k, a.Granted, a.At, sent)
			case r.Op == rule.GiveBack && r.ID == 0:
				w.note(returned, r, k, r.Charges[k].Cost, r.Charges[k].At, sent)
			}
		}
	}
	return err
}

func (w recordingStore) note(what eventKind, r *store.Request, k int, units int64, at rule.Micros, sent int64) {
	w.journal.note(record{What: what, Limit: r.Charges[k].Limit.Name(), Units: units, At: at, Sent: sent, Now: time.Now().UnixNano()})
}

// openLeases returns a store with leases over inner, and records its spends.
//
// The layer has its own clock, as in programs, which starts at 0 while the layer is created. Recorded times count from just
// before that, so they are earlier than the spends, by less than maxClockError.
func (j *journal) openLeases(inner store.Store) (s *lease.Store, err error) {
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
		s = lease.New(recordingStore{inner, j}, lease.Options{MaxKeys: 64, Spent: note})
		if time.Now().UnixNano()-begun < int64(maxClockError) {
			return s, nil
		}
	}
	return nil, errors.New("creating a layer always takes too long")
}

// maxClockError is how much later than recorded a spend can have been.
const maxClockError = 500 * time.Microsecond

// lifeOf returns the longest time for which a lease that was charged at a time can be spent, counted from before it was requested.
func lifeOf(r *rule.Limit, at rule.Micros) int64 {
	_, end := leases.Part(r, at)
	return int64(min(end-at, 1_000_000)-1) * 999
}
