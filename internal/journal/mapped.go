package journal

import (
	"errors"
	"slices"
	"time"
)

// In a mapping, a writer reserves space by adding to the cursor, and writes there. Positions go on in the next segment without a gap,
// so that a writer whose position is beyond the last segment knows where it will be.

// noteElsewhere writes a Note whose position is not in the current segment.
func (j *Journal) noteElsewhere(pos uint64, tag uint32, a, b uint64) (Position, bool) {
	for {
		s, again := j.find(pos, noteBytes)
		if s != nil {
			j.putNote(s, pos-s.base+headerBytes, tag, a, b)
			return Position(pos + noteBytes), s.durable.Load()
		}
		if !again {
			return 0, false
		}
		pos = j.cursor.Add(noteBytes) - noteBytes
	}
}

func (j *Journal) appendMapped(kind uint8, body []byte) (Position, bool) {
	n := bodyBytes(len(body))
	for {
		pos := j.cursor.Add(n) - n
		s := j.current.Load()
		if off := pos - s.base; off > s.lastNote || off+n > s.lastNote+noteBytes {
			var again bool
			if s, again = j.find(pos, n); s == nil {
				if again {
					continue
				}
				return 0, false
			}
		}
		off := pos - s.base
		j.putBody(s, off+headerBytes, kind, body)
		if off/wakeBytes != (off+n)/wakeBytes {
			j.wakeUp()
		}
		return Position(pos + n), s.durable.Load()
	}
}

// find returns the segment of reserved space. It waits until there is one. If the space is in two segments, find fills both parts up, and
// the caller tries again. The caller does not if records are not recorded.
func (j *Journal) find(pos, n uint64) (s *segment, again bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for !j.closed {
		for _, s := range slices.Backward(j.segments) {
			switch {
			case s.room == 0 || pos < s.base || pos >= s.limit():
			case pos+n <= s.limit():
				return s, false
			default:
				return nil, j.fillLocked(s, pos, pos+n)
			}
		}
		last := j.lastLocked()
		if last != nil && pos < last.base { // reserved before the segment was given up
			return nil, true
		}
		if last == nil || !j.nextLocked(last) {
			return nil, false
		}
	}
	return nil, false
}

// fillLocked marks space at the end of a segment, and at the beginning of the next one, as not to be read.
func (j *Journal) fillLocked(s *segment, from, to uint64) bool {
	j.pad(s, from, s.limit())
	for s.limit() < to {
		next := j.afterLocked(s)
		if next == nil {
			return false
		}
		s = next
		j.pad(s, s.base, min(to, s.limit()))
	}
	return true
}

func (j *Journal) pad(s *segment, from, to uint64) {
	off := from - s.base + headerBytes
	publish(s.at(off), s.salt.sealed(off, padWord(to-from)))
}

// afterLocked returns the segment after s, and waits for it if need be.
func (j *Journal) afterLocked(s *segment) *segment {
	for {
		for _, t := range j.segments {
			if t.room != 0 && t.base == s.limit() {
				return t
			}
		}
		if j.lastLocked() != s || !j.nextLocked(s) {
			return nil
		}
	}
}

// nextLocked begins the segment after last, or waits until another goroutine has. It reports false if there is none and will be none.
func (j *Journal) nextLocked(last *segment) bool {
	attempts := j.attempts
	for {
		switch {
		case j.lastLocked() != last:
			return j.lastLocked() != nil
		case j.closed:
			return false
		case j.spare != nil:
			if err := j.activateLocked(last.limit(), 0); err != nil {
				j.failLocked(err)
				return false
			}
			return true
		case j.attempts != attempts && j.spareErr != nil:
			j.failLocked(j.spareErr)
			return false
		}
		j.wakeUp()
		j.changed.Wait()
	}
}

// patience is how long a checkpoint waits for records that others are writing, which takes them less than a microsecond unless the
// operating system stops them.
const patience = 10 * time.Second

var errStuck = errors.New("journal: a record was not finished for 10 seconds")

// awaitFinished waits until all records up to a position are finished, so that a reader may rely on it.
func awaitFinished(part []*segment, end place) error {
	deadline := time.Now().Add(patience)
	for _, s := range part {
		if s.seq > end.seq {
			break
		}
		limit := s.room + headerBytes
		if s.seq == end.seq {
			limit = end.off
		}
		for off := uint64(headerBytes); off < limit; {
			n := finishedBytes(s.at(off).Load())
			if n == 0 {
				if time.Now().After(deadline) {
					return errStuck
				}
				time.Sleep(50 * time.Microsecond)
			}
			off += n
		}
	}
	return nil
}

// finishedBytes returns the length of the record that begins with a word, or 0 if it is not finished.
func finishedBytes(first uint64) uint64 {
	word := uint32(first)
	switch word & 7 {
	case formNote:
		return noteBytes
	case formBody:
		return bodyBytes(int(word >> 11))
	case formPad:
		return uint64(word>>3) * wordBytes
	}
	return 0
}
