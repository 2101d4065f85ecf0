package replay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/slidegate/slidegate/rule"
)

// spool keeps the traffic in a temporary file, a few bytes per request, for the second pass: a pipe cannot be read
// again.
type spool struct {
	file *os.File
	out  *bufio.Writer
	last request
}

func newSpool() (*spool, error) {
	file, err := os.CreateTemp("", "slidegate-replay-*")
	if err != nil {
		return nil, fmt.Errorf("replay: create a temporary file for the traffic: %w", err)
	}
	return &spool{file: file, out: bufio.NewWriterSize(file, 1<<18)}, nil
}

func (s *spool) write(batch []request) error {
	var entry [4 * binary.MaxVarintLen64]byte
	for i := range batch {
		q := &batch[i]
		n := binary.PutVarint(entry[:], int64(q.at-s.last.at))
		n += binary.PutUvarint(entry[n:], uint64(q.key))
		n += binary.PutUvarint(entry[n:], uint64(q.cost))
		n += binary.PutUvarint(entry[n:], uint64(q.group))
		if _, err := s.out.Write(entry[:n]); err != nil {
			return fmt.Errorf("replay: temporary file for the traffic: %w", err)
		}
		s.last = *q
	}
	return nil
}

// each reads the traffic again, in the order in which it was written.
func (s *spool) each(visit func(*request) error) error {
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("replay: temporary file for the traffic: %w", err)
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("replay: temporary file for the traffic: %w", err)
	}
	in := bufio.NewReaderSize(s.file, 1<<18)
	var q request
	for {
		delta, err := binary.ReadVarint(in)
		if err == io.EOF {
			return nil
		}
		key, err1 := binary.ReadUvarint(in)
		cost, err2 := binary.ReadUvarint(in)
		group, err3 := binary.ReadUvarint(in)
		if err := errors.Join(err, err1, err2, err3); err != nil {
			return fmt.Errorf("replay: temporary file for the traffic: %w", err)
		}
		q.at += rule.Micros(delta)
		q.key, q.cost, q.group = uint32(key), int64(cost), uint32(group)
		if err := visit(&q); err != nil {
			return err
		}
	}
}

func (s *spool) close() {
	s.file.Close()
	os.Remove(s.file.Name())
}
