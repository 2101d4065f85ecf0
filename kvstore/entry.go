package kvstore

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/slidegate/slidegate/internal/settled"
	"github.com/slidegate/slidegate/internal/statecode"
	"github.com/slidegate/slidegate/rule"
)

// formatVersion is the first byte of every entry.
const formatVersion = 1

// errDamaged reports an entry that this package cannot have written.
var errDamaged = errors.New("kvstore: an entry is damaged or was written by another program; delete it, or set another prefix")

// entry is the value of one name in the engine: the states of a key or a group, and what was done once.
type entry struct {
	at      rule.Micros // when it was last changed, by the clock of the process that changed it
	records []*record
	index   map[string]*record // by ID, once there are many records
	changed bool

	maxValue int // how many bytes it may take
}

// kind is the type of a record.
type kind byte

const (
	stateKind kind = 1
	onceKind  kind = 2
)

// record is the state at one address, or a generation of IDs at one address; see decideOnce.
type record struct {
	id      string      // kind and address; see recordID
	expires rule.Micros // when the record is no longer needed
	payload []byte      // as it was read; nil once the record has changed

	limit *rule.Limit // of a state that has been decoded
	state *rule.State
	once  *generation
}

// generation is a number of IDs that are forgotten together. The one with the higher number is the newer one.
type generation struct {
	settled.Generation
	number int64
	done   map[rule.ID][]int64 // the record of each; Count of them
	size   int                 // of all of it in bytes, or more
}

// manyRecords is the number of records above which an index is faster than a linear search.
const manyRecords = 16

// maxAddress is the largest size of an address that is stored as it is. A longer one is replaced by its hash.
const maxAddress = 512

// recordID joins a kind and an address into a unique ID: no prefix begins with another prefix, the group follows its length, and
// the key is the rest.
func recordID(k kind, prefix, group, key string) string {
	id := make([]byte, 0, 128) // on the stack unless the address is longer
	id = append(id, byte(k), 'a')
	id = append(id, prefix...)
	id = binary.AppendUvarint(id, uint64(len(group)))
	id = append(id, group...)
	id = append(id, key...)
	if len(id) > maxAddress {
		sum := sha256.Sum256(id)
		return string(append([]byte{byte(k), 'h'}, sum[:]...))
	}
	return string(id)
}

// decodeEntry reads an entry. An empty value is an entry without records.
func decodeEntry(value []byte) (*entry, error) {
	e := &entry{}
	if len(value) == 0 {
		return e, nil
	}
	if value[0] > formatVersion {
		return nil, fmt.Errorf("kvstore: the entry was written by a newer version: it has format %d, and this version reads formats up to %d; "+
			"upgrade this program", value[0], formatVersion)
	}
	if value[0] != formatVersion {
		return nil, errDamaged
	}
	src := &statecode.Reader{Rest: value[1:]}
	if e.at = rule.Micros(src.Int()); src.Failed() {
		return nil, errDamaged
	}
	for src.More() {
		r := &record{id: string(bytesOf(src)), expires: rule.Micros(src.Int()), payload: bytesOf(src)}
		if src.Failed() || len(r.id) < 2 || e.find(r.id) != nil {
			return nil, errDamaged
		}
		e.add(r)
	}
	return e, nil
}

// find returns the record with an ID, or nil.
func (e *entry) find(id string) *record {
	if e.index != nil {
		return e.index[id]
	}
	for _, r := range e.records {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (e *entry) add(r *record) {
	e.records = append(e.records, r)
	switch {
	case e.index != nil:
		e.index[r.id] = r
	case len(e.records) >= manyRecords:
		e.index = map[string]*record{}
		for _, r := range e.records {
			e.index[r.id] = r
		}
	}
}

// encode returns the bytes of an entry that is changed now, without the records that have expired, and the time at which the last
// of the others expires.
func (e *entry) encode(now rule.Micros) (value []byte, expires rule.Micros) {
	value = append(make([]byte, 0, 128), formatVersion)
	value = binary.AppendVarint(value, int64(now))
	for _, r := range e.records {
		if r.expires <= now {
			continue
		}
		expires = max(expires, r.expires)
		if r.payload == nil {
			r.payload = r.encode()
		}
		value = appendBytes(value, r.id)
		value = binary.AppendVarint(value, int64(r.expires))
		value = appendBytes(value, r.payload)
	}
	return value, expires
}

func (r *record) encode() []byte {
	if kind(r.id[0]) == stateKind {
		return statecode.Append(make([]byte, 0, 32), r.limit.Algorithm, r.state)
	}
	return r.once.encode()
}

func (g *generation) encode() []byte {
	b := binary.AppendVarint([]byte{}, g.number)
	b = binary.AppendVarint(b, int64(g.Began))
	b = binary.AppendVarint(b, int64(g.Newest-g.Began))
	b = binary.AppendVarint(b, int64(g.Until-g.Began))
	b = binary.AppendVarint(b, int64(g.Before-g.Began))
	b = binary.AppendUvarint(b, uint64(len(g.done)))
	for _, id := range slices.Sorted(maps.Keys(g.done)) { // sorted, so that equal entries have equal bytes
		b = binary.LittleEndian.AppendUint64(b, uint64(id))
		b = binary.AppendUvarint(b, uint64(len(g.done[id])))
		for _, n := range g.done[id] {
			b = binary.AppendVarint(b, n)
		}
	}
	return b
}

// state returns the state with an ID. It belongs to the entry; clone it before changing it.
func (e *entry) state(id string, limit *rule.Limit) (rule.State, error) {
	r := e.find(id)
	if r == nil {
		return rule.State{}, nil
	}
	if r.state == nil {
		src, state := &statecode.Reader{Rest: r.payload}, &rule.State{}
		if statecode.Read(src, limit, state); src.Failed() || src.More() {
			return rule.State{}, errDamaged
		}
		r.state, r.limit = state, limit
	}
	return *r.state, nil
}

// setState replaces the state with an ID.
func (e *entry) setState(id string, limit *rule.Limit, s *rule.State) {
	r := e.find(id)
	if r == nil {
		r = &record{id: id}
		e.add(r)
	}
	r.state, r.limit, r.payload, r.expires = s, limit, nil, limit.Expires(s)
	e.changed = true
}

// generation returns the generation in the record with an ID; an empty one if there is no such record. It belongs to the
// entry.
func (e *entry) generation(id string) (*generation, error) {
	r := e.find(id)
	if r == nil {
		return &generation{}, nil
	}
	if r.once == nil {
		src, g := &statecode.Reader{Rest: r.payload}, &generation{done: map[rule.ID][]int64{}}
		g.number, g.Began = src.Int(), rule.Micros(src.Int())
		g.Newest = g.Began + rule.Micros(src.Int())
		g.Until, g.Before = g.Began+rule.Micros(src.Int()), g.Began+rule.Micros(src.Int())
		for range src.Count() {
			id, n := rule.ID(src.Uint64()), src.Count()
			record := make([]int64, 0, n)
			for range n {
				record = append(record, src.Int())
			}
			g.done[id] = record
		}
		g.Count, g.size = int64(len(g.done)), len(r.payload)
		if src.Failed() || src.More() {
			return nil, errDamaged
		}
		r.once = g
	}
	return r.once, nil
}

// setGeneration replaces the generation in the record with an ID.
func (e *entry) setGeneration(id string, g *generation) {
	r := e.find(id)
	if r == nil {
		r = &record{id: id}
		e.add(r)
	}
	r.once, r.payload, r.expires = g, nil, g.Expires()
	e.changed = true
}
