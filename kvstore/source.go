package kvstore

import "encoding/binary"

// appendBytes appends the length of b and b itself, which source.bytes reads.
func appendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// source reads the bytes of an entry. After a failure it is empty and returns zeros.
type source struct {
	rest   []byte
	failed bool
}

// Int reads a number.
func (s *source) Int() int64 {
	n, size := binary.Varint(s.rest)
	s.skip(size)
	return n
}

// Uint64 reads eight bytes.
func (s *source) Uint64() uint64 {
	if len(s.rest) < 8 {
		s.Check(false)
		return 0
	}
	n := binary.LittleEndian.Uint64(s.rest)
	s.rest = s.rest[8:]
	return n
}

// Check fails if not ok.
func (s *source) Check(ok bool) {
	if !ok {
		s.failed, s.rest = true, nil
	}
}

// Failed reports whether the bytes are not a valid entry.
func (s *source) Failed() bool { return s.failed }

func (s *source) skip(size int) {
	if size <= 0 {
		s.Check(false)
		return
	}
	s.rest = s.rest[size:]
}

// count reads how many items follow, each of which takes at least a byte.
func (s *source) count() int {
	n, size := binary.Uvarint(s.rest)
	if s.skip(size); n > uint64(len(s.rest)) {
		s.Check(false)
		return 0
	}
	return int(n)
}

// bytes reads what appendBytes has written. The result shares memory with the entry.
func (s *source) bytes() []byte {
	n := s.count()
	b := s.rest[:n:n]
	s.rest = s.rest[n:]
	return b
}
