package memstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/rule"
)

// Contents is what Inspect found in a folder.
type Contents struct {
	Process string // that uses the folder, as in "process 12"; empty if none does
	Files   int
	Bytes   int64 // of the files, with the space that is reserved

	Checkpoint time.Time // when the last one began; zero if there is none, or it has no keys
	Requests   int       // that were recorded since then
	Until      time.Time // time of the last one; zero if there is none

	// How the records end. A folder in use is never Closed, and both counts may be of what is just being written.
	New         bool   // nothing was ever recorded there
	Closed      bool   // the store was closed
	Unrecorded  bool   // what was decided last was not durable, and is missing
	PowerLoss   bool   // not closed, and the operating system has been started since, or it is another machine's
	Skipped     int    // records that were not finished, whose requests were not answered
	Dropped     int64  // bytes that cannot be used after a loss of power
	DroppedFrom string // file and offset

	Stats                    // of a store that continues from here now, with as much memory as it needs
	Documents map[string]int // their sizes in bytes, by name
}

// Inspect reads the folder of a store that Open returned, and changes nothing. A process may be using it.
func Inspect(dir string) (c Contents, err error) {
	for attempt := 1; ; attempt++ {
		c, err = inspect(dir)
		// What is being written while it is read may look damaged, at most at one place at a time.
		if c.Process == "" || attempt == 10 || !errors.Is(err, ErrDamaged) {
			return c, err
		}
	}
}

func inspect(dir string) (c Contents, err error) {
	s, err := newStore(Options{MaxBytes: maxBytes})
	if err != nil {
		return c, err
	}
	s.keeper, s.opened = &keeper{}, s.clock.read()
	r := &replayer{store: s, dir: dir, plans: map[uint32]*plan{}}
	real := s.clock
	s.clock = clock{now: func() rule.Micros { return r.now }}
	c.Process = journal.Holder(dir)
	var first, last rule.Micros
	found, err := journal.Inspect(dir, func(record journal.Record) error {
		if err := r.replay(record); err != nil {
			return err
		}
		if first == 0 {
			first = r.now
		}
		if record.IsNote || record.Kind == kindTake || record.Kind == kindJob {
			c.Requests++
			last = r.now
		}
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("memstore: %w", err)
	}
	s.clock = real
	c.Files, c.Bytes = found.Files, found.DiskBytes
	if found.Checkpoint {
		c.Checkpoint = timeOf(first)
	}
	c.Until = timeOf(last)
	c.New = found.New
	c.Closed, c.Unrecorded, c.PowerLoss, c.Skipped = found.Ended, found.Unrecorded, found.PowerLoss, found.Holes+found.Unfinished
	c.Dropped, c.DroppedFrom = found.Cut, found.CutAt
	c.Stats = s.Stats()
	c.Documents = map[string]int{}
	for name, d := range s.documents {
		c.Documents[name] = len(d.text)
	}
	return c, nil
}

// timeOf returns the time of a record, or zero if it has none.
func timeOf(at rule.Micros) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(at))
}
