package journal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
)

// load reads a file. Its size has been compared with its header, unless it has none.
func (r *reader) load(s *source) error {
	size := min(s.size, maxSegment)
	if int64(cap(r.data)) < size {
		r.data = make([]byte, size)
	}
	r.data = r.data[:size]
	n, err := s.file.ReadAt(r.data, 0)
	if int64(n) < size {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// errEnd ends the reading of all files.
var errEnd = errors.New("end")

// readAll replays the files.
func (r *reader) readAll() error {
	for i, s := range r.kept {
		if err := r.load(s); err != nil {
			return err
		}
		if s.isComplete && i == 0 {
			r.checkpointBytes = s.complete.Bytes
		}
		end, err := r.readSource(s, i+1 == len(r.kept))
		r.end = end
		if err == errEnd {
			return r.dropRest(i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropRest drops the files behind the i-th.
func (r *reader) dropRest(i int) error {
	for _, s := range r.kept[i+1:] {
		if err := r.drop(s); err != nil {
			return err
		}
		r.dropped = append(r.dropped, segmentName(s.seq))
	}
	r.kept = r.kept[:i+1]
	return nil
}

// drop counts what a file has, because something before it did not reach the disk.
func (r *reader) drop(s *source) error {
	if err := r.load(s); err != nil {
		return err
	}
	if n := int64(len(bytes.TrimRight(r.data, "\x00"))); n > 0 {
		r.cutAt(s, 0, n)
	} else {
		r.Blanks++
	}
	return nil
}

// readSource replays a file, and returns where its records end.
func (r *reader) readSource(s *source, last bool) (end uint64, err error) {
	data := r.data
	tolerant := r.PowerLoss && !s.accepted
	switch {
	case s.end != 0:
		if uint64(len(data)) < s.end || s.end < headerBytes || s.end%wordBytes != 0 {
			return 0, r.damaged(s.seq, uint64(len(data)), "the file is shorter than its records")
		}
		data = data[:s.end]
	case s.header.is(flagAllocated) && s.size < s.header.Size && !tolerant:
		return 0, r.damaged(s.seq, uint64(len(data)), "the file is shorter than it was made")
	}
	end = headerBytes
	for off := end; off < uint64(len(data)); {
		what, n, record, ok := parse(data, off, s.header.Salt)
		if what == hole {
			if n = uint64(len(data)) - off - uint64(len(bytes.TrimLeft(data[off:], "\x00"))); off+n == uint64(len(data)) {
				break
			}
			n &^= wordBytes - 1
		}
		if what != whole {
			if err := r.judge(s, data, off, n, what); err != nil {
				if err == errCut {
					err = nil
				}
				return end, err
			}
		}
		if ok {
			r.Records++
			if off >= s.strict {
				r.after += n
			}
			if err := r.replay(record); err != nil {
				return end, err
			}
		}
		off += n
		if what != hole {
			end = off
		}
	}
	return r.atEnd(s, uint64(len(data)), end, last, tolerant)
}

// atEnd checks that nothing is missing at the end of a file.
func (r *reader) atEnd(s *source, size, end uint64, last, tolerant bool) (uint64, error) {
	full := end >= uint64(s.header.Size)
	end = min(end, size)
	switch {
	case end < s.strict && !full, s.end != 0 && end != s.end:
		return end, r.damaged(s.seq, end, "records are missing")
	case last || full || s.end != 0 || s.endMayBeBroken:
		return end, nil
	case tolerant:
		r.cutAt(s, end, 0)
		return end, errEnd
	case s.header.is(flagOrdered):
		return end, r.damaged(s.seq, end, "records are missing")
	}
	r.Holes++
	r.HoleBytes += int64(size - end)
	return end, nil
}

// errCut ends the reading of one file.
var errCut = errors.New("cut")

var problems = map[state]string{
	hole: "nothing was written here, but behind it", open: "a record was not finished", broken: "the checksum of a record is wrong",
	truncated: "a record is longer than the file",
}

// judge decides what to do about something that is not a whole record.
func (r *reader) judge(s *source, data []byte, off, n uint64, what state) error {
	damaged := r.damaged(s.seq, off, problems[what])
	switch {
	case off < s.strict:
		return damaged
	case r.PowerLoss && !s.accepted:
		r.cutAt(s, off, int64(len(bytes.TrimRight(data[off:], "\x00"))))
		return errEnd
	case s.header.is(flagOrdered):
		if s.end == 0 && s.endMayBeBroken && isTorn(s, data, off, n, what) {
			r.cutAt(s, off, int64(len(bytes.TrimRight(data[off:], "\x00"))))
			return errCut
		}
		return damaged
	case what == hole:
		r.Holes++
		r.HoleBytes += int64(n)
	case what == open:
		r.Unfinished++
	default:
		return damaged
	}
	return nil
}

func (r *reader) cutAt(s *source, off uint64, bytes int64) {
	r.Cut += bytes
	if r.CutAt == "" {
		r.CutAt = fmt.Sprintf("%s at byte %d", filepath.Join(r.dir, segmentName(s.seq)), off)
	}
}

// blockBytes is what a write that is interrupted by the end of its process has written a multiple of.
const blockBytes = 4096

// isTorn reports whether the last write of a file that is written in order was interrupted: a record ends where a block begins, and there
// is nothing behind it.
func isTorn(s *source, data []byte, off, n uint64, what state) bool {
	if !s.header.is(flagAllocated) {
		return what == truncated
	}
	used := uint64(len(bytes.TrimRight(data, "\x00")))
	blocks := (used + blockBytes - 1) &^ (blockBytes - 1)
	return what == broken && blocks > off && blocks < off+n
}
