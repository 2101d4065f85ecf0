package statecode

import (
	"encoding/binary"
	"errors"
)

// Reader reads what Append and package binary have written. After the first error it is empty, and returns zeros.
type Reader struct {
	Rest []byte
	Err  error
}

var (
	errShort = errors.New("a record is shorter than what it says that it has")
	errRange = errors.New("a number is out of range")
)

// Int reads what binary.AppendVarint wrote.
func (r *Reader) Int() int64 {
	n, size := binary.Varint(r.Rest)
	r.skip(size)
	return n
}

// Count reads what binary.AppendUvarint wrote: how many items follow, each of which takes at least a byte.
func (r *Reader) Count() int {
	n, size := binary.Uvarint(r.Rest)
	if r.skip(size); n > uint64(len(r.Rest)) {
		r.Fail(errShort)
		return 0
	}
	return int(n)
}

func (r *Reader) skip(size int) {
	if size <= 0 {
		r.Fail(errShort)
		return
	}
	r.Rest = r.Rest[size:]
}

// Uint64 reads what binary.LittleEndian.AppendUint64 wrote.
func (r *Reader) Uint64() uint64 {
	if b := r.Bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Bytes reads n bytes, which share the memory of Rest. It returns nil if there are fewer.
func (r *Reader) Bytes(n int64) []byte {
	if n < 0 || n > int64(len(r.Rest)) {
		r.Fail(errShort)
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Check fails if ok is false, which means that a number is out of range.
func (r *Reader) Check(ok bool) {
	if !ok {
		r.Fail(errRange)
	}
}

// Fail records an error, unless there was one before.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Err, r.Rest = err, nil
	}
}

// Failed reports whether there was an error.
func (r *Reader) Failed() bool { return r.Err != nil }

// More reports whether there is more to read.
func (r *Reader) More() bool { return len(r.Rest) > 0 }
