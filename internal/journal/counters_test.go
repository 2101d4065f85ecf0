package journal_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/internal/journal"
)

// counters is what a program keeps: each change adds 1 to one counter and records that, and a checkpoint records whole counters.
type counters struct {
	mu    [workers]sync.Mutex // held from before the record until the change is visible
	value [workers]uint64
	known [workers]bool
	acked [workers]atomic.Uint64
}

const workers = 8

// replay fails if a record is missing before another one of the same counter.
func (c *counters) replay(r journal.Record) error {
	if r.Kind == filler {
		return nil
	}
	if !r.IsNote {
		w, value := binary.LittleEndian.Uint64(r.Body), binary.LittleEndian.Uint64(r.Body[8:])
		if c.known[w] && c.value[w] != value {
			return fmt.Errorf("counter %d is %d, but a checkpoint says %d", w, c.value[w], value)
		}
		c.value[w], c.known[w] = value, true
		return nil
	}
	w := r.Tag
	if r.A == 1 {
		c.known[w] = true
	}
	if c.known[w] { // otherwise the checkpoint will say it
		if c.value[w]+1 != r.A {
			return fmt.Errorf("counter %d: got %d after %d", w, r.A, c.value[w])
		}
		c.value[w] = r.A
	}
	return nil
}

// filler is the kind of records that only take space, so that a write has several sectors.
const filler = 2

// add changes a counter, and waits until that is durable.
func (c *counters) add(j *journal.Journal, w uint64) bool {
	c.mu[w].Lock()
	next := c.value[w] + 1
	at, durable := j.Note(uint32(w), next, w)
	c.value[w] = next
	c.mu[w].Unlock()
	if next%4 == 0 {
		j.Append(filler, bytes.Repeat([]byte{0xa5}, int(next*7919%3000)))
	}
	if !j.Wait(at) || !durable {
		return false
	}
	c.acked[w].Store(next)
	return true
}

func (c *counters) checkpoint(j *journal.Journal) error {
	if err := j.Begin(); err != nil {
		return err
	}
	c.append(j)
	return j.Commit()
}

// append appends all counters.
func (c *counters) append(j *journal.Journal) {
	for w := range uint64(workers) {
		c.mu[w].Lock()
		body := binary.LittleEndian.AppendUint64(nil, w)
		j.Append(1, binary.LittleEndian.AppendUint64(body, c.value[w]))
		c.mu[w].Unlock()
	}
}

func addDurable(t *testing.T, j *journal.Journal, c *counters, want bool) {
	t.Helper()
	for i := range uint64(200) {
		if got := c.add(j, i%workers); got != want {
			t.Fatalf("record %d: got durable %v, want %v; %v", i, got, want, j.Err())
		}
	}
}

// restored returns the counters of a folder.
func restored(dir string, opts journal.Options) (*journal.Journal, *counters, journal.Report, error) {
	c := &counters{}
	j, report, err := journal.Open(dir, opts, c.replay)
	for w := range workers {
		c.known[w] = true
		c.acked[w].Store(c.value[w])
	}
	return j, c, report, err
}
