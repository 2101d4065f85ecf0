package memstore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"sync"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Freeze makes the segment that a limit's first keys lie in look as if it had just been split, and nothing stood in its place
// yet. It returns its lock, and what undoes it.
func (s *Store) Freeze(limit *store.Limit) (lock sync.Locker, thaw func()) {
	head := s.known(limit.Rule().Shape()).segment(0).header()
	set := func(dead bool) {
		head.mu.Lock()
		defer head.mu.Unlock()
		head.dead = dead
	}
	set(true)
	return &head.mu, func() { set(false) }
}

// EmptyShapes returns a snapshot of n shapes without a key, which Snapshot does not write.
func EmptyShapes(n int) ([]byte, error) {
	var b bytes.Buffer
	e := &encoder{w: bufio.NewWriter(&b)}
	e.begin(hashKey{}, 0)
	for i := range n {
		e.shape(rule.Shape{Algorithm: rule.FixedWindow, Window: rule.Micros(i+1) * 1_000_000}, packedSets)
	}
	e.int(recordEnd)
	e.flush()
	return binary.LittleEndian.AppendUint32(b.Bytes(), crc32.Checksum(b.Bytes(), checksums)), e.err
}

// Sign gives bytes that are to pass for a snapshot the right checksum, in the place of the one that they end with.
func Sign(snapshot []byte) []byte {
	body := snapshot[:len(snapshot)-4]
	return binary.LittleEndian.AppendUint32(body, crc32.Checksum(body, checksums))
}

// HeldSlots returns how many slots of an in-flight limit are held by all keys in the limit's first segment, and for how many
// there is memory.
func HeldSlots(s *Store, limit *store.Limit) (held, room int) {
	for _, slots := range s.known(limit.Rule().Shape()).segment(0).(*wideSegment).held {
		held += len(slots)
		room += cap(slots)
	}
	return held, room
}
