package memstore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/slidegate/slidegate/rule"
)

// EmptyShapes returns a snapshot of n shapes without a key, which Snapshot does not write.
func EmptyShapes(n int) ([]byte, error) {
	var b bytes.Buffer
	e := &encoder{w: bufio.NewWriter(&b)}
	e.bytes([]byte(magic))
	e.bytes(make([]byte, len(hashKey{})))
	e.int(0)
	for i := range n {
		e.shape(rule.Shape{Algorithm: rule.FixedWindow, Window: rule.Micros(i+1) * 1_000_000})
	}
	e.int(recordEnd)
	e.flush()
	return binary.LittleEndian.AppendUint32(b.Bytes(), crc32.Checksum(b.Bytes(), checksums)), e.err
}
