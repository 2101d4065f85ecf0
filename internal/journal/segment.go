package journal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"unsafe"
)

// segment is a file. Positions are counted through all files: those of one begin at base.
type segment struct {
	base     uint64
	lastNote uint64 // the largest offset from base at which a Note fits
	mem      unsafe.Pointer
	salt     salt
	durable  atomic.Bool // what is recorded here will be found again

	_    [64]byte // what is above is read by all processors
	room uint64   // bytes for records; 0 if this process does not write here
	flag uint64   // flags of the header that depend on how the file was made
	seq  uint64
	size int64 // of the file
	file File  // nil if this process has not opened it
	mmap []byte

	released bool   // file is closed
	retired  bool   // the mapping will be given back
	end      uint64 // offset of what was written, in order; not used in a mapping
}

// notRecording takes the place of a segment when nothing is recorded: no record fits.
var notRecording = &segment{base: math.MaxUint64 / 2}

// at returns the word at an offset of the file.
func (s *segment) at(off uint64) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Add(s.mem, off)) }

// limit returns the position behind the last record that fits.
func (s *segment) limit() uint64 { return s.base + s.room }

const nameSuffix = ".log"

func segmentName(seq uint64) string { return fmt.Sprintf("%012d%s", seq, nameSuffix) }

func (s *segment) name() string { return segmentName(s.seq) }

// parseName returns the number of a segment's file, and whether it is one.
func parseName(name string) (seq uint64, ok bool) {
	digits, is := strings.CutSuffix(name, nameSuffix)
	if !is || len(digits) < 12 || len(digits) > 18 {
		return 0, false
	}
	for _, d := range []byte(digits) {
		if d < '0' || d > '9' {
			return 0, false
		}
		seq = seq*10 + uint64(d-'0')
	}
	return seq, seq > 0 && segmentName(seq) == name
}

// create makes a file for a segment. If there is no space it leaves nothing behind: what a failed attempt had reserved would be missing
// elsewhere.
func (j *Journal) create(seq uint64, mapped bool) (*segment, error) {
	s := &segment{seq: seq, size: j.size, room: uint64(j.size) - headerBytes}
	s.lastNote = s.room - noteBytes
	_ = binary.Read(rand.Reader, binary.LittleEndian, &s.salt)
	file, err := j.files.Create(s.name())
	if err != nil {
		return nil, err
	}
	s.file = file
	if err := j.reserve(s, mapped); err != nil {
		j.discard(s)
		if s.mmap != nil {
			unmap(s.mmap)
		}
		return nil, err
	}
	return s, nil
}

// discard removes a file and frees its space.
func (j *Journal) discard(s *segment) {
	if s.mmap != nil {
		detach(s.mmap)
	}
	_ = s.file.Truncate(0)
	s.release()
	_ = j.remove(s.name())
}

// reserve gives a new file its space.
func (j *Journal) reserve(s *segment, mapped bool) error {
	if !mapped {
		s.flag = flagOrdered
		if !j.synced {
			return nil // it grows, and a write may find the disk full
		}
	}
	if mapped {
		mem, err := s.file.Map(j.size)
		if err != nil {
			return err
		}
		s.mmap, s.mem = mem, unsafe.Pointer(unsafe.SliceData(mem))
	}
	switch err := s.file.Allocate(j.size); {
	case err == nil:
		s.flag |= flagAllocated
	case mapped || !errors.Is(err, errors.ErrUnsupported):
		return err
	}
	if mapped {
		if err := fill(s.file, j.size); err != nil {
			return err
		}
		populate(s.mmap, 0, aheadBytes)
		return nil
	}
	return errors.Join(s.file.Sync(), j.files.Sync())
}

// zeros are large enough for the kernel to use large pages, and small enough not to keep a processor for long.
var zeros [64 << 10]byte

// fill writes zeros into a file, which halves the cost of its mapping: the kernel then has large pages of it, and finds them all the sooner
// when they are made present, synced and removed.
func fill(file File, size int64) error {
	for off := int64(0); off < size; off += int64(len(zeros)) {
		if _, err := file.WriteAt(zeros[:min(int64(len(zeros)), size-off)], off); err != nil {
			return err
		}
	}
	return nil
}

// release closes the file. The mapping is replaced and stays, because a caller may still be writing there.
func (s *segment) release() {
	if s.file == nil || s.released {
		return
	}
	s.released = true // file stays: who writes it at the same time gets an error
	if s.mmap != nil {
		detach(s.mmap)
	}
	_ = s.file.Close()
}

// prepare makes the next segment unless there is one. Decisions wait for it only if segments fill faster than they are made.
func (j *Journal) prepare() error {
	j.preparing.Lock()
	defer j.preparing.Unlock()
	err := j.lock.Check()
	j.mu.Lock()
	if j.closed || err == nil && j.spare != nil {
		j.mu.Unlock()
		return nil
	}
	seq := j.nextSeqLocked()
	j.mu.Unlock()

	var s *segment
	if err == nil {
		s, err = j.create(seq, j.mapped)
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	j.attempts++
	j.spareErr = err
	if err == nil {
		j.spare = s
	}
	j.changed.Broadcast()
	return err
}

func (j *Journal) nextSeqLocked() uint64 {
	if n := len(j.segments); n > 0 {
		return max(j.segments[n-1].seq, j.highest) + 1
	}
	return j.highest + 1
}

// activateLocked makes the spare the segment that records go to, from a position on.
func (j *Journal) activateLocked(base, flags uint64) error {
	s := j.spare
	j.spare = nil
	s.base, s.flag = base, s.flag|flags
	s.durable.Store(j.failure.err == nil)
	h := header{Size: j.size, Seq: s.seq, Boot: j.boot, Salt: s.salt, Flags: s.flag}
	if !j.begun {
		s.flag |= flagFirst
		h.Flags, h.Previous, h.PreviousEnd = s.flag, j.previous, j.previousEnd
	}
	if err := j.writeHeader(s, h.encode()); err != nil {
		j.discard(s)
		j.retireLocked(s)
		return err
	}
	j.begun = true
	j.segments = append(j.segments, s)
	j.current.Store(s)
	j.wakeUp()
	j.changed.Broadcast()
	return nil
}

// writeHeader writes a header before any record. With Options.Synced it is written together with the first records.
func (j *Journal) writeHeader(s *segment, page []byte) error {
	if !j.mapped && j.synced {
		j.writer.begin(s, page)
		return nil
	}
	_, err := s.file.WriteAt(page, 0)
	s.end = headerBytes
	return err
}

// lastLocked returns the segment that records go to, or nil.
func (j *Journal) lastLocked() *segment {
	if s := j.current.Load(); s != notRecording {
		return s
	}
	return nil
}

// newestLocked returns the segments from a number on.
func (j *Journal) newestLocked(seq uint64) []*segment {
	for i, s := range j.segments {
		if s.seq >= seq {
			return j.segments[i:]
		}
	}
	return nil
}

func (j *Journal) diskBytesLocked() (n int64) {
	for _, s := range j.segments {
		if s.room != 0 && s.flag&flagAllocated == 0 {
			n += int64(s.end)
		} else {
			n += s.size
		}
	}
	if j.spare != nil {
		n += j.spare.size
	}
	return n
}
