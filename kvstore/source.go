package kvstore

import (
	"encoding/binary"

	"github.com/slidegate/slidegate/internal/statecode"
)

// appendBytes appends the length of b and b itself, which bytesOf reads.
func appendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// bytesOf reads what appendBytes has written. The result shares memory with the entry.
func bytesOf(src *statecode.Reader) []byte { return src.Bytes(int64(src.Count())) }
