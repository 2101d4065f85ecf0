package journal

import (
	"encoding/binary"
	"runtime"
	"sync/atomic"
)

// Without a mapping, records are written in order. With Options.Synced they gather in memory, and the first caller that waits writes all of them
// and waits for the disk; the others share that.

// maxGathered is how much may gather.
const maxGathered = 4 << 20

type writer struct {
	gathered []chunk
	spare    []chunk              // whose memory is used next
	bytes    int                  // gathered
	turn     atomic.Pointer[turn] // the write that is going on; changed under mu
	synced   uint64               // position up to which records are on the disk
	kept     uint64               // positions above kept,
	lost     uint64               // up to lost, were dropped after a failure
	scratch  []byte
}

// turn is one write, which all whose records are in it share.
type turn struct {
	done chan struct{} // closed at its end
	end  uint64        // position up to which all records are on the disk since then; 0 if it failed
}

// chunk is what is to be written at an offset of a file.
type chunk struct {
	s    *segment
	off  uint64
	data []byte
}

func (j *Journal) writeNote(tag uint32, a, b uint64) (Position, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.placeLocked(noteBytes)
	if s == nil {
		return 0, false
	}
	to := j.room(s, noteBytes)
	binary.LittleEndian.PutUint64(to, s.salt.note(s.end, tag, a, b))
	binary.LittleEndian.PutUint64(to[wordBytes:], a)
	binary.LittleEndian.PutUint64(to[2*wordBytes:], b)
	return j.wroteLocked(s, to)
}

func (j *Journal) writeBody(kind uint8, body []byte) (Position, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := bodyBytes(len(body))
	s := j.placeLocked(n)
	if s == nil {
		return 0, false
	}
	to := j.room(s, n)
	binary.LittleEndian.PutUint64(to, s.salt.body(s.end, kind, body))
	clear(to[n-min(n-wordBytes, wordBytes):])
	copy(to[wordBytes:], body)
	return j.wroteLocked(s, to)
}

// placeLocked returns the segment that has space for a record, or nil if nothing is recorded.
func (j *Journal) placeLocked(n uint64) *segment {
	for j.writer.bytes > maxGathered && !j.closed {
		j.writer.turnLocked(j)
	}
	for {
		s := j.lastLocked()
		if s == nil || j.closed || s.end+n <= uint64(s.room)+headerBytes {
			if j.closed {
				return nil
			}
			return s
		}
		if !j.padLocked(s) || !j.nextLocked(s) {
			return nil
		}
	}
}

// padLocked marks the rest of a segment as not to be read.
func (j *Journal) padLocked(s *segment) bool {
	if rest := headerBytes + s.room - s.end; rest > 0 {
		to := j.room(s, wordBytes)
		binary.LittleEndian.PutUint64(to, s.salt.sealed(s.end, padWord(rest)))
		if _, ok := j.wroteLocked(s, to); !ok && j.lastLocked() != s {
			return false
		}
		s.end = headerBytes + s.room
		j.cursor.Store(s.limit())
	}
	return true
}

// room returns where the next n bytes of a segment are to be written.
func (j *Journal) room(s *segment, n uint64) []byte {
	w := &j.writer
	if !j.synced {
		if uint64(cap(w.scratch)) < n {
			w.scratch = make([]byte, n)
		}
		return w.scratch[:n]
	}
	if last := len(w.gathered) - 1; last < 0 || w.gathered[last].s != s {
		w.add(s, s.end)
	}
	c := &w.gathered[len(w.gathered)-1]
	from := len(c.data)
	c.data = append(c.data, make([]byte, n)...) // which does not allocate what is only appended
	return c.data[from:]
}

// add begins a chunk, in the memory of an old one if there is one.
func (w *writer) add(s *segment, off uint64) {
	c := chunk{s: s, off: off}
	if n := len(w.spare); n > 0 {
		c.data = w.spare[n-1].data[:0]
		w.spare = w.spare[:n-1]
	}
	w.gathered = append(w.gathered, c)
}

// begin gathers the header of a segment.
func (w *writer) begin(s *segment, page []byte) {
	w.add(s, 0)
	c := &w.gathered[len(w.gathered)-1]
	c.data = append(c.data, page...)
	w.bytes += len(page)
	s.end = headerBytes
}

// wroteLocked ends the writing of a record at the end of a segment.
func (j *Journal) wroteLocked(s *segment, record []byte) (Position, bool) {
	if j.synced {
		j.writer.bytes += len(record)
	} else if _, err := s.file.WriteAt(record, int64(s.end)); err != nil {
		_ = s.file.Truncate(int64(s.end)) // what was written of it
		j.failLocked(err)
		return 0, false
	}
	off := s.end
	s.end += uint64(len(record))
	end := s.base + s.end - headerBytes
	j.cursor.Store(end)
	if off/wakeBytes != s.end/wakeBytes {
		j.wakeUp()
	}
	return Position(end), s.durable.Load()
}

// wait returns when a record is on the disk, or known not to be. It takes the lock only if the write that is going on was too early.
func (w *writer) wait(j *Journal, at uint64) bool {
	if t := w.turn.Load(); t.includes(at) {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		switch {
		case at <= w.lost:
			return at <= w.kept
		case at <= w.synced:
			return j.failure.err == nil
		case j.closed:
			return false
		}
		if w.turnLocked(j).includes(at) {
			return true
		}
	}
}

// includes waits for the end of a write, and reports whether it has put a record onto the disk.
func (t *turn) includes(at uint64) bool {
	if t == nil {
		return false
	}
	<-t.done
	return at <= t.end
}

// turnLocked writes what has gathered, or waits for the end of a write that is going on.
func (w *writer) turnLocked(j *Journal) *turn {
	t := w.turn.Load()
	if t == nil {
		_ = w.writeLocked(j)
		return nil
	}
	j.mu.Unlock()
	<-t.done
	j.mu.Lock()
	return t
}

// writeLocked writes what has gathered, and syncs it.
func (w *writer) writeLocked(j *Journal) error {
	t := &turn{done: make(chan struct{})}
	w.turn.Store(t)
	j.mu.Unlock()
	runtime.Gosched() // callers that are about to record something share this write; a call that waits for the disk keeps their processor
	j.mu.Lock()
	chunks, end, epoch := w.gathered, j.cursor.Load(), j.failure.epoch
	w.gathered, w.bytes = nil, 0
	j.mu.Unlock()
	err := writeChunks(chunks)
	j.mu.Lock()
	w.turn.Store(nil)
	w.spare = append(w.spare[:0], chunks...)
	switch {
	case epoch != j.failure.epoch: // dropped after another failure
		err = j.failure.err
	case err != nil:
		j.failLocked(err)
	default:
		w.synced, t.end = end, end
	}
	close(t.done)
	return err
}

func writeChunks(chunks []chunk) error {
	for i, c := range chunks {
		if _, err := c.s.file.WriteAt(c.data, int64(c.off)); err != nil {
			return err
		}
		if i+1 == len(chunks) || chunks[i+1].s != c.s {
			if err := c.s.file.Sync(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flushLocked writes and syncs all that was recorded before the call.
func (w *writer) flushLocked(j *Journal) error {
	target, epoch := j.cursor.Load(), j.failure.epoch
	for w.synced < target || len(w.gathered) > 0 && w.synced == target {
		if w.turn.Load() != nil {
			w.turnLocked(j)
		} else if err := w.writeLocked(j); err != nil {
			return err
		}
		if epoch != j.failure.epoch {
			return j.failure.err
		}
	}
	return nil
}

// dropLocked forgets what has gathered, after a failure.
func (w *writer) dropLocked(end uint64) {
	if w.lost == 0 {
		w.kept = w.synced
	}
	w.lost = end
	w.gathered, w.bytes = nil, 0
}
