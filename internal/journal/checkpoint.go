package journal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// checkpoint is the state of the running and of the last complete checkpoint.
type checkpoint struct {
	running    bool
	recovering bool   // it began while records were not durable
	epoch      int    // of failure, when it began
	first      uint64 // its first segment
	begin      uint64 // position where the last one began, complete or not
	own        uint64 // bytes of the checkpoint itself since then; 0 until it is complete
	before     uint64 // bytes since the last complete one that were found by Open

	bytes uint64 // of the last complete one
	live  uint64 // what the caller says; 0 if it does not
	at    time.Time
}

// Due receives when a checkpoint is due: because of the size of what was recorded since the last one, because the end of the last process
// was not clean, or because records are not durable and another attempt is worth it.
func (j *Journal) Due() <-chan struct{} { return j.due }

// The files take at most 3 times the live state and 16 segments: the last checkpoint, what was recorded since it began, the next checkpoint,
// and what is recorded meanwhile. The larger the part between checkpoints, the less they cost.
const (
	segmentsBetween = 9 // that may fill between the end of a checkpoint's own records and the beginning of the next one
	segmentsDuring  = 1 // that may fill during a checkpoint before it must hurry
)

func (j *Journal) isDueLocked() bool {
	c := &j.checkpoint
	return !c.running && j.failure.err == nil && j.failure.timer == nil &&
		j.endLocked()-c.begin+c.before > segmentsBetween*uint64(j.size)+c.own+c.liveBytes()/2
}

// liveBytes returns how much space the live state takes in records.
func (c *checkpoint) liveBytes() uint64 {
	if c.live != 0 {
		return c.live
	}
	return c.bytes
}

// Live says how many bytes the records of a checkpoint take. Without it, all records of the time of the last one count.
func (j *Journal) Live(bytes int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.checkpoint.live = uint64(max(bytes, 1))
}

// Hurry reports whether the running checkpoint should not be slowed down, because many other records were appended since it began: they
// take space, and must be synced with it. The caller says how many bytes of the checkpoint itself it has appended.
func (j *Journal) Hurry(own int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return int64(j.endLocked()-j.checkpoint.begin)-own > segmentsDuring*j.size
}

// Begin begins a checkpoint in a new file. The caller then appends its whole live state, while other records go on, and calls Commit or
// Abandon. If records were not durable, they are written to the new file from here on, and are durable after Commit.
func (j *Journal) Begin() error {
	if err := j.beginAllowed(); err != nil {
		return err
	}
	for {
		err := j.prepare()
		j.mu.Lock()
		if err != nil {
			j.failure.explain(j.dir, err)
			j.retryLocked()
			j.mu.Unlock()
			return fmt.Errorf("journal: %w", err)
		}
		if j.closed {
			j.mu.Unlock()
			return errClosed
		}
		if j.spare != nil {
			break
		}
		j.mu.Unlock() // a writer was faster
	}
	defer j.mu.Unlock()
	base, flags := j.leaveLocked(), uint64(flagBegins)
	if j.failure.err != nil { // perhaps just now
		flags |= flagGap
	}
	if err := j.activateLocked(base, flags); err != nil {
		j.failLocked(err)
		return err
	}
	s := j.lastLocked()
	c := &j.checkpoint
	c.running, c.recovering, c.epoch, c.first, c.begin, c.own, c.before =
		true, j.failure.err != nil, j.failure.epoch, s.seq, s.base, 0, 0
	return nil
}

func (j *Journal) beginAllowed() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return errClosed
	}
	if j.checkpoint.running {
		return errRunning
	}
	return nil
}

// leaveLocked ends the current segment, if there is one, and returns the position at which the next one begins.
func (j *Journal) leaveLocked() uint64 {
	last := j.lastLocked()
	if last == nil {
		return j.cursor.Load()
	}
	if !j.mapped {
		if !j.padLocked(last) {
			return j.cursor.Load()
		}
		return last.limit()
	}
	for {
		at := j.cursor.Load()
		if at >= last.limit() { // others wait for the next segment already
			return last.limit()
		}
		if j.cursor.CompareAndSwap(at, last.limit()) {
			j.pad(last, at, last.limit())
			return last.limit()
		}
	}
}

// Commit completes the checkpoint: it is synced, marked as complete, and older files are removed.
func (j *Journal) Commit() error {
	end, epoch, err := j.endOfCheckpoint()
	if err != nil {
		j.Abandon()
		return err
	}
	first, err := j.syncCheckpoint(end)
	if err != nil {
		j.mu.Lock()
		j.failLocked(err)
		j.mu.Unlock()
		j.Abandon()
		return err
	}
	j.mu.Lock()
	c := &j.checkpoint
	c.running = false
	c.bytes = end.at - first.base
	c.own = min(c.liveBytes(), c.bytes)
	c.at = time.Now()
	if epoch == j.failure.epoch {
		for _, s := range j.newestLocked(c.first) {
			s.durable.Store(true)
		}
		j.failure.recoveredLocked()
	}
	j.mu.Unlock()
	j.keepWord()
	j.removeBefore(first.seq)
	return nil
}

// place is a position, and where it is.
type place struct {
	at       uint64
	seq, off uint64
}

// endOfCheckpoint returns the position behind all that must be on the disk, when all records up to there are finished.
func (j *Journal) endOfCheckpoint() (end place, epoch int, err error) {
	var part []*segment
	j.mu.Lock()
	switch c := &j.checkpoint; {
	case !c.running:
		err = errNotRunning
	case j.failure.epoch != c.epoch: // something is missing in it
		err = j.failure.err
	default:
		end, epoch, part = j.endPlaceLocked(), c.epoch, slices.Clone(j.newestLocked(c.first))
	}
	j.mu.Unlock()
	if err == nil && j.mapped {
		err = awaitFinished(part, end)
	}
	return end, epoch, err
}

// endPlaceLocked returns the end of the last segment's records. Reserved space beyond it belongs to the next segment.
func (j *Journal) endPlaceLocked() place {
	s := j.lastLocked()
	at := min(j.endLocked(), s.limit())
	return place{at: at, seq: s.seq, off: at - s.base + headerBytes}
}

// syncCheckpoint syncs what was recorded up to a position, and then marks the checkpoint as complete.
func (j *Journal) syncCheckpoint(end place) (first *segment, err error) {
	j.mu.Lock()
	part := slices.Clone(j.newestLocked(j.checkpoint.first))
	if j.synced {
		err = j.writer.flushLocked(j)
	}
	j.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for _, s := range part {
		if s.seq <= end.seq {
			if s.mmap != nil && s.seq < end.seq { // nobody writes there any more, and a sync interrupts all processors for each page of a mapping
				detach(s.mmap)
			}
			if err := s.file.Sync(); err != nil {
				return nil, err
			}
		}
	}
	if err := j.files.Sync(); err != nil {
		return nil, err
	}
	j.pauseAt("before mark")
	first = part[0]
	m := mark{Seq: end.seq, End: end.off, Bytes: end.at - first.base}
	if _, err := first.file.WriteAt(m.encode(first.salt, completeMark), completeMark); err != nil {
		return nil, err
	}
	return first, first.file.Sync()
}

func (j *Journal) pauseAt(point string) {
	if j.pause != nil {
		j.pause(point)
	}
}

// removeBefore removes older segments, the oldest first, so that there is never one missing in the middle. A file that cannot be removed
// is tried again after the next checkpoint.
func (j *Journal) removeBefore(seq uint64) {
	j.mu.Lock()
	j.unmapped, j.retired = append(j.unmapped, j.retired...), nil
	older := slices.Clone(j.segments[:len(j.segments)-len(j.newestLocked(seq))])
	j.mu.Unlock()
	for _, s := range older {
		j.pauseAt("before removal")
		j.mu.Lock()
		j.retireLocked(s) // some systems do not remove files that are open
		j.mu.Unlock()
		if err := j.remove(s.name()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return
		}
		j.mu.Lock()
		j.segments = j.segments[1:]
		j.mu.Unlock()
	}
}

// retireLocked closes a file. Its mapping stays until the next checkpoint is complete: a slow caller may still write there.
func (j *Journal) retireLocked(s *segment) {
	s.release()
	if s.mmap != nil && !s.retired {
		j.retired = append(j.retired, s)
	}
	s.retired, s.room = true, 0
}

// Abandon ends a checkpoint that failed. The previous one stays valid. If records were not durable, they are not written any more, and the
// new files are removed.
func (j *Journal) Abandon() {
	j.preparing.Lock()
	defer j.preparing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &j.checkpoint
	if !c.running {
		return
	}
	c.running = false
	if c.recovering {
		j.removeAttemptLocked()
	}
	j.retryLocked()
}

// removeAttemptLocked removes the files that a checkpoint began after a failure, the newest first.
func (j *Journal) removeAttemptLocked() {
	if j.failure.epoch == j.checkpoint.epoch {
		j.failure.epoch++ // a writer that is still writing there must not succeed
	}
	j.current.Store(notRecording)
	j.writer.dropLocked(j.endLocked())
	if j.spare != nil {
		j.discard(j.spare)
		j.retireLocked(j.spare)
		j.spare = nil
	}
	attempt := j.newestLocked(j.checkpoint.first)
	for _, s := range slices.Backward(attempt) {
		if s.flag&flagFirst != 0 {
			j.begun = false
		}
		j.retireLocked(s)
		_ = j.remove(s.name())
	}
	j.segments = j.segments[:len(j.segments)-len(attempt)]
	j.changed.Broadcast()
}
