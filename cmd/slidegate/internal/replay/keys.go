package replay

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/slidegate/slidegate/rule"
)

// request is a traffic.Line with its key as a number, its position in the input, and the decisions of the exact log.
type request struct {
	at   rule.Micros
	cost int64
	seq  int64
	key  uint32
	fits uint32 // which limits of the exact log admit it; the first limit is the lowest bit

	note  note   // its traits
	group uint32 // the group of the key
	more  bool   // the next element is a part of the same request
}

// keys assigns a small number to every key, so that everything else can be a slice indexed by it. It is a custom hash
// table and not a map because keys are looked up in batches: once the table is larger than the cache, lookups wait for
// memory, and the processor can fetch many locations in parallel.
type keys struct {
	seed  maphash.Seed
	slots []slot
	names []byte // each name, prefixed with its length
	start []uint64
}

// slot is one key in the table. A start of 0 means an empty slot.
type slot struct {
	hash   uint32 // the upper half of the hash, to compare
	number uint32
	start  uint64 // the offset of its name in names
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

// lookup is a list of keys that are looked up together.
type lookup struct {
	names []byte
	ends  []int
	hash  []uint64
	warm  uint64 // prevents the compiler from removing reads that only warm the cache
}

func (l *lookup) add(name []byte) {
	l.names = append(l.names, name...)
	l.ends = append(l.ends, len(l.names))
}

func (l *lookup) reset() { l.names, l.ends, l.hash = l.names[:0], l.ends[:0], l.hash[:0] }

// numbers calls found with the number of each key of the list. New keys get the next numbers.
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

// reach returns s, extended with zero values if needed so that key is a valid index.
func reach[T any](s []T, key uint32) []T {
	if int(key) < len(s) {
		return s
	}
	return slices.Grow(s, int(key)+1-len(s))[:int(key)+1]
}
