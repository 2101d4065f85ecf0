package kvstore

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/slidegate/slidegate/internal/statecode"
	"github.com/slidegate/slidegate/rule"
)

// formatVersion is the first byte of every entry.
const formatVersion = 1

// ErrNewer is wrapped by errors about an entry that a newer version of this package has written.
var ErrNewer = errors.New("the entry was written by a newer version")

// entry is what one name of the engine holds: the states of a key or a group, and which reservations were settled.
type entry struct {
	records map[string]*record // by kind and address
	order   []*record
	changed bool
}

// kind is what a record holds.
type kind byte

const (
	stateKind      kind = 1
	settlementKind kind = 2
)

// record is one state, or the settlements of one address in one stretch of time.
type record struct {
	id      string      // kind and address
	expires rule.Micros // from then on it does not matter
	payload []byte      // as it was read; nil if it was changed
	limit   *rule.Limit // of a state
	state   *rule.State // nil until somebody asks
	settled map[rule.ID][]int64
}

// longestAddress is up to which length an address stands in an entry as it is. A longer one stands there as its hash.
const longestAddress = 512

// recordID joins a kind and an address so that no two are joined alike: no prefix begins with another, the group is
// preceded by its length, and the key is what is left.
func recordID(k kind, prefix, group, key string) string {
	id := make([]byte, 0, 2+len(prefix)+len(group)+len(key)+4)
	id = append(id, byte(k), 'a')
	id = append(id, prefix...)
	id = binary.AppendUvarint(id, uint64(len(group)))
	id = append(id, group...)
	id = append(id, key...)
	if len(id) > longestAddress {
		sum := sha256.Sum256(id)
		return string(append([]byte{byte(k), 'h'}, sum[:]...))
	}
	return string(id)
}

// decodeEntry reads an entry; an empty value is one without records.
func decodeEntry(value []byte) (*entry, error) {
	e := &entry{records: map[string]*record{}}
	if len(value) == 0 {
		return e, nil
	}
	if value[0] != formatVersion {
		return nil, fmt.Errorf("kvstore: %w: its format is %d and this program reads up to %d; upgrade this program", ErrNewer, value[0], formatVersion)
	}
	for src := (&source{rest: value[1:]}); len(src.rest) > 0; {
		r := &record{id: string(src.text()), expires: rule.Micros(src.Int()), payload: src.text()}
		if src.failed || len(r.id) < 2 || e.records[r.id] != nil {
			return nil, errDamaged
		}
		e.add(r)
	}
	return e, nil
}

var errDamaged = errors.New("kvstore: an entry is damaged, or was not written by this package; delete it, or give the store another prefix")

func (e *entry) add(r *record) {
	e.records[r.id] = r
	e.order = append(e.order, r)
}

// encode returns the entry's bytes without what has expired, and how long it must be kept.
func (e *entry) encode(now rule.Micros) (value []byte, last rule.Micros) {
	value = []byte{formatVersion}
	for _, r := range e.order {
		if r.expires <= now {
			continue
		}
		last = max(last, r.expires)
		if r.payload == nil {
			r.payload = r.encode()
		}
		value = appendText(value, r.id)
		value = binary.AppendVarint(value, int64(r.expires))
		value = appendText(value, r.payload)
	}
	return value, last
}

func (r *record) encode() []byte {
	if kind(r.id[0]) == stateKind {
		return statecode.Append([]byte{}, r.limit.Algorithm, r.state)
	}
	b := binary.AppendUvarint([]byte{}, uint64(len(r.settled)))
	for id, back := range r.settled {
		b = binary.LittleEndian.AppendUint64(b, uint64(id))
		b = binary.AppendUvarint(b, uint64(len(back)))
		for _, n := range back {
			b = binary.AppendVarint(b, n)
		}
	}
	return b
}

// state returns the state at an address, and its record if there is one. The state is the entry's: clone it to change it.
func (e *entry) state(id string, limit *rule.Limit) (*rule.State, error) {
	r := e.records[id]
	if r == nil {
		return &rule.State{}, nil
	}
	if r.state == nil {
		src := source{rest: r.payload}
		r.state, r.limit = &rule.State{}, limit
		if statecode.Read(&src, limit, r.state); src.failed || len(src.rest) > 0 {
			return nil, errDamaged
		}
	}
	return r.state, nil
}

// setState replaces the state at an address.
func (e *entry) setState(id string, limit *rule.Limit, s *rule.State) {
	r := e.records[id]
	if r == nil {
		r = &record{id: id}
		e.add(r)
	}
	r.state, r.limit, r.payload, r.expires = s, limit, nil, limit.Expires(s)
	e.changed = true
}

// settlements returns what was settled at an address in a stretch of time; nil if nothing was.
func (e *entry) settlements(id string) (map[rule.ID][]int64, error) {
	r := e.records[id]
	if r == nil {
		return nil, nil
	}
	if r.settled == nil {
		src := source{rest: r.payload}
		r.settled = map[rule.ID][]int64{}
		for range src.count() {
			settled := rule.ID(src.Uint64())
			back := make([]int64, 0, 1)
			for range src.count() {
				back = append(back, src.Int())
			}
			r.settled[settled] = back
		}
		if src.failed || len(src.rest) > 0 {
			return nil, errDamaged
		}
	}
	return r.settled, nil
}

// settle remembers a settlement until a moment.
func (e *entry) settle(id string, settled rule.ID, back []int64, until rule.Micros) {
	r := e.records[id]
	if r == nil {
		r = &record{id: id, settled: map[rule.ID][]int64{}}
		e.add(r)
	}
	r.settled[settled] = back
	r.payload, r.expires = nil, until
	e.changed = true
}

func appendText[T string | []byte](dst []byte, text T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// source reads an entry.
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

// Failed reports whether the bytes were no entry.
func (s *source) Failed() bool { return s.failed }

func (s *source) skip(size int) {
	if size <= 0 {
		s.Check(false)
		return
	}
	s.rest = s.rest[size:]
}

// count reads how many of something follow, each at least a byte long.
func (s *source) count() int {
	n, size := binary.Uvarint(s.rest)
	s.skip(size)
	if n > uint64(len(s.rest)) {
		s.Check(false)
		return 0
	}
	return int(n)
}

func (s *source) text() []byte {
	n := s.count()
	text := s.rest[:n:n]
	s.rest = s.rest[n:]
	return text
}
