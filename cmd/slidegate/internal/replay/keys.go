package replay

import (
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

// keys assigns a small number to every key, so that everything else can be a slice indexed by it.
type keys struct {
	numbers map[string]uint32
	names   []string
}

func newKeys() *keys { return &keys{numbers: map[string]uint32{}} }

func (k *keys) len() int { return len(k.names) }

// name returns the name of a key.
func (k *keys) name(number uint32) string { return k.names[number] }

// number returns the number of a key. A new key gets the next one.
func (k *keys) number(name []byte) uint32 {
	number, known := k.numbers[string(name)]
	if !known {
		own := string(name)
		number = uint32(len(k.names))
		k.numbers[own], k.names = number, append(k.names, own)
	}
	return number
}

// reach returns s, extended with zero values if needed so that key is a valid index.
func reach[T any](s []T, key uint32) []T {
	if int(key) < len(s) {
		return s
	}
	return slices.Grow(s, int(key)+1-len(s))[:int(key)+1]
}
