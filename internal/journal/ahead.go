package journal

import (
	"errors"
	"time"
)

const (
	// aheadBytes are made present ahead of the cursor. Not more: what the kernel has written to the disk in the meantime must be made
	// writable again.
	aheadBytes = 512 << 10
	// wakeBytes is how far the cursor moves before the next part is prepared.
	wakeBytes = 64 << 10
	// checkEvery is how often the journal makes sure that the folder is still its own.
	checkEvery = time.Second
)

func (j *Journal) wakeUp() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// lookAhead prepares memory and files before they are needed, until the journal is closed.
func (j *Journal) lookAhead() {
	defer j.finished.Done()
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case <-j.stopped:
			return
		case <-check.C:
			j.checkFolder()
			continue
		case <-j.wake:
		}
		j.mu.Lock()
		s, wanted := j.lastLocked(), j.spareWantedLocked()
		end, spare, failing := j.endLocked(), j.spare, j.failure.err != nil
		if j.isDueLocked() {
			j.signalDue()
		}
		unmapped := j.unmapped
		j.unmapped = nil
		j.mu.Unlock()
		if failing {
			j.keepWord()
		}
		for _, u := range unmapped {
			unmap(u.mmap)
		}
		if s != nil && j.mapped && end >= s.base {
			at := headerBytes + end - s.base
			populate(s.mmap, min(at, uint64(s.size)), min(at+aheadBytes, uint64(s.size)))
			if at+aheadBytes > uint64(s.size) && spare != nil {
				populate(spare.mmap, 0, aheadBytes)
			}
		}
		if wanted {
			_ = j.prepare() // the writer that needs it gets the error
		}
	}
}

// checkFolder stops recording if the folder is no longer the journal's own.
func (j *Journal) checkFolder() {
	err := j.lock.Check()
	if err == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed && !errors.Is(j.failure.err, errLost) {
		j.failLocked(err)
	}
}

// remove removes a file, if the folder is still the journal's own.
func (j *Journal) remove(name string) error {
	if err := j.lock.Check(); err != nil {
		return err
	}
	return j.files.Remove(name)
}

// spareWantedLocked reports whether the next segment should be made: when a quarter of the last one is used, so that a journal with little
// to do needs one file.
func (j *Journal) spareWantedLocked() bool {
	s := j.lastLocked()
	return s != nil && j.spare == nil && !j.closed && j.endLocked()-s.base >= s.room/4
}

// endLocked returns the position behind the last record.
func (j *Journal) endLocked() uint64 { return j.cursor.Load() }
