package memstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/slidegate/slidegate/rule"
)

// A snapshot is a stream of bytes, in this order: a magic text with a version, the hash key, the time of the snapshot,
// then for each shape its fields and its slots, then the settlements, and last a checksum of all that. Numbers are varints,
// times are in microseconds since the Unix epoch. Slots of keys are saved by their hash alone. A floor is saved with what it
// covers: a set, in all segments whose hashes begin like that of the segment it was in.
//
// Version 1 had neither calendars nor slots nor settlements, did not say how many sets a segment has, and kept of a token
// bucket the two numbers that rule.LegacyBucket takes.

const (
	magic   = "slidegate memory " // and the version, and a line feed
	version = 2
)

// Errors of Restore.
var (
	// ErrSnapshot is wrapped by every error about bytes that are not a whole snapshot.
	ErrSnapshot = errors.New("memstore: not a snapshot, or a damaged one")
	// ErrNewer is returned for a snapshot whose format this version does not know.
	ErrNewer = errors.New("memstore: the snapshot was written by a newer version of Slidegate")
)

// The kinds of records.
const (
	recordEnd        = 0
	recordShape      = 1
	recordKey        = 2 // a key of the last shape
	recordFloor      = 3 // a floor of the last shape
	recordSettlement = 4
)

var checksums = crc32.MakeTable(crc32.Castagnoli)

// Snapshot writes all live state to w, so that Restore can go on from there after a restart. The store stays in use
// meanwhile: each key is saved as it is at some moment during the call. What a reservation gave back is never saved without
// the settlement, so it cannot be given back again. The bytes contain the secret of the hash, but no keys.
func (s *Store) Snapshot(w io.Writer) error {
	sum := crc32.New(checksums)
	e := &encoder{w: bufio.NewWriter(io.MultiWriter(w, sum))}
	e.begin(s.key, s.now())
	s.mu.Lock()
	tables := make([]*table, 0, len(s.tables))
	for _, t := range s.tables {
		tables = append(tables, t)
	}
	s.mu.Unlock()
	for _, t := range tables {
		t.snapshot(e)
	}
	s.settlements.snapshot(e, s.now()) // after the states, as a settlement without its state only refuses
	e.int(recordEnd)
	e.flush()
	if e.err == nil {
		_, e.err = w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	}
	if e.err != nil {
		return fmt.Errorf("memstore: writing a snapshot: %w", e.err)
	}
	return nil
}

// snapshot writes a table, or nothing if no slot of it is live.
func (t *table) snapshot(e *encoder) {
	named := false
	// Segments split while this goes on, but what they cover stays: the next one begins where this one ends.
	for at := uint64(0); ; {
		g := t.segment(at)
		head := g.header()
		head.mu.Lock()
		if head.dead {
			head.mu.Unlock()
			if t.dropped.Load() { // what came to life in it meanwhile is in the table that took its place
				if other := t.store.known(t.shape); other != nil {
					other.snapshot(e)
				}
				return
			}
			continue
		}
		slots := t.copySlots(g, at)
		depth := head.depth
		head.mu.Unlock()
		if len(slots) > 0 && !named {
			e.shape(t.shape, t.sets)
			named = true
		}
		for i := range slots {
			slots[i].encode(e, t)
		}
		if depth == 0 {
			return
		}
		if at += 1 << (64 - depth); at == 0 || e.err != nil {
			return
		}
	}
}

// savedSlot is one slot of a snapshot.
type savedSlot struct {
	hash  uint64
	set   int
	first uint64
	depth uint8
	state rule.State
}

// copySlots copies the live slots of a segment, so that its lock need not be held while they are written.
func (t *table) copySlots(g segment, first uint64) []savedSlot {
	now := t.store.now()
	var saved []savedSlot
	for i := range t.sets * setSlots {
		h := g.hash(i)
		if h == unused {
			continue
		}
		var s rule.State
		if g.read(t, i, &s) && t.limit.Expires(&s) > now {
			own := s.Clone()
			s.Log, s.Slots = own.Log, own.Slots
			saved = append(saved, savedSlot{hash: h, set: i / setSlots, first: first, depth: g.header().depth, state: s})
		}
	}
	return saved
}

func (v *savedSlot) encode(e *encoder, t *table) {
	if v.hash == floorHash {
		e.int(recordFloor)
		e.int(int64(v.set))
		e.int(int64(v.depth))
		e.bytes(binary.LittleEndian.AppendUint64(nil, v.first))
	} else {
		e.int(recordKey)
		e.bytes(binary.LittleEndian.AppendUint64(nil, v.hash))
	}
	e.state(t.shape.Algorithm, &v.state)
}

type encoder struct {
	w   *bufio.Writer
	buf []byte
	err error
}

func (e *encoder) bytes(b []byte) {
	if e.err == nil {
		_, e.err = e.w.Write(b)
	}
}

func (e *encoder) int(n int64) {
	e.buf = binary.AppendVarint(e.buf[:0], n)
	e.bytes(e.buf)
}

func (e *encoder) begin(key hashKey, now rule.Micros) {
	e.bytes(fmt.Appendf(nil, "%s%d\n", magic, version))
	e.bytes(key[:])
	e.int(int64(now))
}

func (e *encoder) shape(s rule.Shape, sets int) {
	e.int(recordShape)
	e.int(int64(s.Algorithm.Code()))
	e.int(int64(s.Anchor))
	e.int(int64(s.Segments))
	e.int(int64(s.Window))
	e.int(int64(s.Calendar))
	e.int(int64(len(s.Zone)))
	e.bytes([]byte(s.Zone))
	e.int(int64(sets))
}

func (e *encoder) state(algorithm rule.Algorithm, s *rule.State) {
	switch algorithm {
	case rule.SlidingLog:
		times := s.Log.Times()
		e.int(int64(len(times)))
		before := rule.Micros(0)
		for _, at := range times {
			e.int(int64(at - before))
			before = at
		}
	case rule.TokenBucket:
		e.int(int64(s.Start))
		e.int(int64(s.Until))
		e.int(s.Missing)
		e.int(s.Rest)
	case rule.InFlight:
		e.int(int64(len(s.Slots)))
		for _, slot := range s.Slots {
			e.bytes(binary.LittleEndian.AppendUint64(nil, uint64(slot.ID)))
			e.int(int64(slot.Renewed))
		}
	default:
		e.int(int64(s.Start))
		for _, count := range s.Counts {
			e.int(count)
		}
	}
}

func (e *encoder) flush() {
	if e.err == nil {
		e.err = e.w.Flush()
	}
}
