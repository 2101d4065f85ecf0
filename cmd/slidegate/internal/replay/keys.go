package replay

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// request is a traffic.Line with its key as a number, its place in the input, and what an exact log says of it.
type request struct {
	at   rule.Micros
	cost int64
	seq  int64
	key  uint32
	fits uint32 // which limits of an exact log would admit it, the first in the lowest bit

	note  note   // what else the log tells of it
	group uint32 // what the key faces
	more  bool   // the next one is a part of the same request
}

// keys gives every key a small number, so that all else is a slice indexed by it. It is a table by itself and not a map
// because keys are looked up many at a time: what the processor waits for, once the table is larger than its cache, is
// memory, and it can wait for many places at once.
type keys struct {
	seed  maphash.Seed
	slots []slot
	names []byte // each name with its length before it
	start []uint64
}

// slot is one key in the table. A start of 0 is an empty slot.
type slot struct {
	hash   uint32 // its upper half, to compare
	number uint32
	start  uint64 // where its name lies in names
}

func newKeys() *keys {
	return &keys{seed: maphash.MakeSeed(), slots: make([]slot, 1<<10), names: make([]byte, 1, 1<<12)}
}

func (k *keys) len() int { return len(k.start) }

// name returns the name of a key.
func (k *keys) name(number uint32) string { return string(k.nameAt(k.start[number])) }

func (k *keys) nameAt(start uint64) []byte {
	length, n := binary.Uvarint(k.names[start:])
	start += uint64(n)
	return k.names[start : start+length]
}

// lookup is a list of keys whose numbers are asked for together.
type lookup struct {
	names []byte
	ends  []int
	hash  []uint64
	warm  uint64 // keeps the compiler from leaving out what only warms the cache
}

func (l *lookup) add(name []byte) {
	l.names = append(l.names, name...)
	l.ends = append(l.ends, len(l.names))
}

func (l *lookup) reset() { l.names, l.ends, l.hash = l.names[:0], l.ends[:0], l.hash[:0] }

// numbers calls found with the number of each key of the list. Keys never seen get the next numbers.
func (k *keys) numbers(l *lookup, found func(i int, number uint32)) {
	mask := uint64(len(k.slots) - 1)
	from := 0
	for _, end := range l.ends {
		hash := maphash.Bytes(k.seed, l.names[from:end])
		l.hash = append(l.hash, hash)
		l.warm += uint64(k.slots[hash&mask].hash)
		from = end
	}
	for _, hash := range l.hash {
		if s := &k.slots[hash&mask]; s.hash == uint32(hash>>32) {
			l.warm += uint64(k.names[s.start])
		}
	}
	from = 0
	for i, end := range l.ends {
		found(i, k.number(l.names[from:end], l.hash[i]))
		from = end
	}
}

func (k *keys) number(name []byte, hash uint64) uint32 {
	mask := uint64(len(k.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &k.slots[i]
		if s.start == 0 {
			return k.insert(i, name, hash)
		}
		if s.hash == uint32(hash>>32) && string(k.nameAt(s.start)) == string(name) {
			return s.number
		}
	}
}

func (k *keys) insert(at uint64, name []byte, hash uint64) uint32 {
	number := uint32(len(k.start))
	start := uint64(len(k.names))
	k.names = binary.AppendUvarint(k.names, uint64(len(name)))
	k.names = append(k.names, name...)
	k.start = append(k.start, start)
	k.slots[at] = slot{uint32(hash >> 32), number, start}
	if len(k.start) > len(k.slots)/8*7 {
		k.grow()
	}
	return number
}

func (k *keys) grow() {
	old := k.slots
	k.slots = make([]slot, 2*len(old))
	mask := uint64(len(k.slots) - 1)
	for _, s := range old {
		if s.start == 0 {
			continue
		}
		i := maphash.Bytes(k.seed, k.nameAt(s.start)) & mask
		for k.slots[i].start != 0 {
			i = (i + 1) & mask
		}
		k.slots[i] = s
	}
}

// reach returns s, made longer with zero values if key lies beyond its end.
func reach[T any](s []T, key uint32) []T {
	if int(key) < len(s) {
		return s
	}
	return slices.Grow(s, int(key)+1-len(s))[:int(key)+1]
}
