package traffic

import (
	"bytes"
	"io"
)

const (
	maxLine     = 1 << 20   // bytes; a longer line is skipped without being buffered
	firstBuffer = 256 << 10 // bytes; the buffer grows only for longer lines
	roomToRead  = 64 << 10  // with less free space at the end of the buffer, its content is moved to the front before more is read
	maxPrinted  = 120       // bytes of a line in examples
)

// scanner splits its input into lines. It reuses one buffer, so a line is valid until the next call.
type scanner struct {
	from       io.Reader
	buf        []byte
	start, end int   // the bounds of the buffered text that has not been returned yet
	err        error // why nothing more can be read, io.EOF included
	number     int64 // the number of the last line returned, from 1
	head       [maxPrinted]byte
}

func newScanner(from io.Reader) *scanner {
	return &scanner{from: from, buf: make([]byte, firstBuffer)}
}

// next returns the next line without its line ending. For a line that is too long it returns the beginning, and true.
// Text after the last newline is a line too, unless a read error cut it off.
func (s *scanner) next() (line []byte, tooLong bool, err error) {
	searched := s.start
	for {
		if i := bytes.IndexByte(s.buf[searched:s.end], '\n'); i >= 0 {
			line = s.buf[s.start : searched+i]
			s.start = searched + i + 1
			break
		}
		if s.end-s.start > maxLine+1 { // one more, for a carriage return
			return s.skip()
		}
		if s.err != nil {
			if s.err != io.EOF || s.start == s.end {
				return nil, false, s.err
			}
			line = s.buf[s.start:s.end]
			s.start = s.end
			break
		}
		held := s.end - s.start
		s.fill()
		searched = s.start + held
	}
	s.number++
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > maxLine {
		return line[:maxPrinted], true, nil
	}
	return line, false, nil
}

// skip discards the rest of a line that is too long and returns its beginning.
func (s *scanner) skip() (line []byte, tooLong bool, err error) {
	copy(s.head[:], s.buf[s.start:])
	for {
		if i := bytes.IndexByte(s.buf[s.start:s.end], '\n'); i >= 0 {
			s.start += i + 1
			break
		}
		s.start = s.end
		if s.err == io.EOF {
			break
		}
		if s.err != nil {
			return nil, false, s.err
		}
		s.fill()
	}
	s.number++
	return s.head[:], true, nil
}

// fill reads more into the buffer. If there is little free space at its end, it moves the content to the front or
// enlarges the buffer.
func (s *scanner) fill() {
	if s.start == s.end {
		s.start, s.end = 0, 0
	}
	if s.start > 0 && len(s.buf)-s.end < roomToRead {
		s.end = copy(s.buf, s.buf[s.start:s.end])
		s.start = 0
	}
	if s.end == len(s.buf) {
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	// A reader may return 0, nil now and then, but not forever.
	for range 100 {
		n, err := s.from.Read(s.buf[s.end:])
		s.end += n
		s.err = err
		if n > 0 || err != nil {
			return
		}
	}
	s.err = io.ErrNoProgress
}

// ahead reads until one of these is true: the given number of lines is buffered, firstBuffer bytes with at least one
// whole line are, more bytes than a line may have are, or reading has ended. It returns the buffered text, which next
// still returns.
func (s *scanner) ahead(lines int) []byte {
	counted, found := s.start, 0
	for {
		found += bytes.Count(s.buf[counted:s.end], []byte{'\n'})
		held := s.end - s.start
		enough := found >= lines || held >= firstBuffer && found > 0 || held > maxLine+1
		if enough || s.err != nil {
			return s.buf[s.start:s.end]
		}
		s.fill()
		counted = s.start + held
	}
}
