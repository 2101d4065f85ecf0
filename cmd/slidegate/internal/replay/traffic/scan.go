package traffic

import (
	"bufio"
	"bytes"
	"io"
)

const (
	maxLine    = 1 << 20   // bytes; a longer line is skipped without being buffered
	bufferSize = 256 << 10 // bytes; only longer lines are copied
	maxPrinted = 120       // bytes of a line in examples
)

// scanner splits its input into lines. A line is valid until the next call.
type scanner struct {
	in     *bufio.Reader
	long   []byte // a line that is longer than the buffer
	number int64  // the number of the last line returned, from 1
}

func newScanner(from io.Reader) *scanner {
	return &scanner{in: bufio.NewReaderSize(from, bufferSize)}
}

// next returns the next line without its line ending. For a line that is too long it returns the beginning, and true.
// Text after the last newline is a line too, unless a read error cut it off.
func (s *scanner) next() (line []byte, tooLong bool, err error) {
	line, err = s.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		s.long = append(s.long[:0], line...)
		for err == bufio.ErrBufferFull {
			line, err = s.in.ReadSlice('\n')
			s.long = append(s.long[:min(len(s.long), maxLine+2)], line...) // two more, for the line ending
		}
		line = s.long
	}
	if err != nil && (err != io.EOF || len(line) == 0) {
		return nil, false, err
	}
	s.number++
	if n := len(line); line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > maxLine {
		return line[:maxPrinted], true, nil
	}
	return line, false, nil
}

// ahead reads until the given number of lines is buffered, the buffer is full, or reading fails with the error that it
// returns. It returns the buffered text, which next still returns.
func (s *scanner) ahead(lines int) (text []byte, err error) {
	for err == nil && len(text) < bufferSize && bytes.Count(text, []byte{'\n'}) < lines {
		_, err = s.in.Peek(len(text) + 1)
		text, _ = s.in.Peek(s.in.Buffered())
	}
	return text, err
}
