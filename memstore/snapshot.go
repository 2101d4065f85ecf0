package memstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"

	"github.com/slidegate/slidegate/internal/statecode"
	"github.com/slidegate/slidegate/rule"
)

// A snapshot is a stream of bytes, in this order: a magic text with a version, the hash key, the time of the snapshot, then
// for each limit its name and shape, its keys and its forgotten ones, then the settlements and the documents, and finally a
// checksum of all that. Numbers are varints, times are in microseconds since the Unix epoch. Keys are saved only as hashes.

const (
	magic   = "slidegate memory " // followed by the version and a line feed
	version = 1
)

// Errors of Restore.
var (
	// ErrSnapshot is wrapped by errors that report an incomplete, damaged or unknown snapshot.
	ErrSnapshot = errors.New("memstore: not a snapshot, or a damaged one")
	// ErrNewer is wrapped by errors that report a snapshot in a newer format than this version reads.
	ErrNewer = errors.New("memstore: the snapshot was written by a newer version of Slidegate")
)

// Kinds of records.
const (
	recordEnd = iota
	recordLimit
	recordKey       // a key of the last limit
	recordForgotten // the forgotten keys of the last limit
	recordSettlement
	recordDocument
)

var checksums = crc32.MakeTable(crc32.Castagnoli)

// Snapshot writes all live state to w, so that Restore can continue from there after a restart. The store stays in use
// during the call: each key is saved as it is at some time during the call. Units that a settlement gave back are never
// saved without the settlement, so they cannot be given back again. The bytes contain the secret of the hash and the
// documents (see store.Documents), but no keys.
func (s *Store) Snapshot(w io.Writer) error {
	sum := crc32.New(checksums)
	e := &encoder{w: bufio.NewWriter(io.MultiWriter(w, sum))}
	e.begin(s.key, s.clock.read())
	s.mu.Lock()
	tables := make([]*table, 0, len(s.tables))
	for _, t := range s.tables {
		tables = append(tables, t)
	}
	s.mu.Unlock()
	for _, t := range tables {
		t.snapshot(e)
	}
	s.settlements.snapshot(e, s.clock.read()) // after the states, because a settlement without its state can only cause refusals
	s.snapshotDocuments(e)
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

// snapshot writes a table, or nothing if none of its keys is live. Forgotten keys come last, so that a key that is
// forgotten during the call is in one of the two.
func (t *table) snapshot(e *encoder) {
	named := false
	name := func() {
		if !named {
			e.limit(t)
		}
		named = true
	}
	// Pages split and merge concurrently. The next one begins where this one ends.
	for at := uint64(0); e.err == nil; {
		g := t.page(at)
		now := t.store.clock.read()
		g.mu.Lock()
		if g.dead {
			g.mu.Unlock()
			if t.dropped.Load() { // keys that became live since are in the table that replaced it
				if other := t.store.findTable(t.id.prefix); other != nil {
					other.snapshot(e)
				}
				return
			}
			continue
		}
		keys := t.copyLive(g, now)
		depth := g.depth
		g.mu.Unlock()
		for i := range keys {
			name()
			keys[i].encode(e, t.limit.Algorithm)
		}
		if depth == 0 {
			break
		}
		size := uint64(1) << (64 - depth)
		if at = at&^(size-1) + size; at == 0 {
			break
		}
	}
	if f := t.forgotten.Load(); f != nil && f.until() > t.store.clock.read() {
		name()
		e.int(recordForgotten)
		f.snapshot(e, t.store.clock.read())
	}
}

// savedKey is one key of a snapshot.
type savedKey struct {
	hash  uint64
	state rule.State
}

// copyLive copies the live states of a page, so that its lock need not be held while they are written.
func (t *table) copyLive(g *page, now rule.Micros) []savedKey {
	f, held := t.form(g), maps.Clone(t.held.of(g))
	var saved []savedKey
	for i := range f.slots() {
		h := f.hash(g, i)
		if h == unused || f.expires(t, g, i, f.peek(g, i)) <= now {
			continue
		}
		var s rule.State
		w := f.claim(g, i)
		f.load(t, g, i, w, &s)
		f.release(g, i, w)
		if t.limit.Expires(&s) > now {
			s.Holds = slices.Clone(held[h])
			delete(held, h)
			saved = append(saved, savedKey{h, s})
		}
	}
	for h, holds := range held {
		if openUntil(holds, now) > now {
			saved = append(saved, savedKey{h, rule.State{Start: rule.Absent, Holds: slices.Clone(holds)}})
		}
	}
	return saved
}

func (k *savedKey) encode(e *encoder, algorithm rule.Algorithm) {
	e.int(recordKey)
	e.hash(k.hash)
	e.state(algorithm, &k.state)
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

func (e *encoder) hash(h uint64) { e.bytes(binary.LittleEndian.AppendUint64(nil, h)) }

func (e *encoder) text(s string) {
	e.int(int64(len(s)))
	e.bytes([]byte(s))
}

func (e *encoder) limit(t *table) {
	e.int(recordLimit)
	e.text(t.id.namespace)
	e.text(t.id.name)
	e.shape(&t.limit)
}

func (e *encoder) shape(s *rule.Limit) {
	e.int(int64(statecode.Code(s.Algorithm)))
	e.int(int64(s.Anchor))
	e.int(int64(s.Segments))
	e.int(int64(s.Window))
	e.int(int64(s.Calendar))
	e.text(s.Zone)
}

func (e *encoder) state(algorithm rule.Algorithm, s *rule.State) {
	e.buf = statecode.Append(e.buf[:0], algorithm, s)
	e.bytes(e.buf)
}

func (e *encoder) flush() {
	if e.err == nil {
		e.err = e.w.Flush()
	}
}
