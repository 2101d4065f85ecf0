package memstore

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// hashKey is the secret of the hash: 128 random bits, recorded in the folder of Open so that its state can be found; the seed of
// hash/maphash cannot be saved.
type hashKey [16]byte

// hasher is the state of SipHash-1-3, a keyed hash designed for hash tables under attack: without the key, collisions
// cannot be predicted.
type hasher struct{ v0, v1, v2, v3 uint64 }

func newHasher(key hashKey) hasher {
	k0, k1 := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])
	return hasher{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
}

func (s hasher) round() hasher {
	s.v0 += s.v1
	s.v2 += s.v3
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v1
	s.v0 += s.v3
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 = bits.RotateLeft64(s.v2, 32)
	return s
}

func (s hasher) word(w uint64) hasher {
	s.v3 ^= w
	s = s.round()
	s.v0 ^= w
	return s
}

// field absorbs a field in whole words, its length first, so that fields cannot run into one another.
func (s hasher) field(text string) hasher {
	s = s.word(uint64(len(text)))
	for ; len(text) >= 8; text = text[8:] {
		s = s.word(load64(unsafe.Pointer(unsafe.StringData(text))))
	}
	if len(text) > 0 {
		s = s.word(tail(text))
	}
	return s
}

// sum absorbs the last part of the input and returns the hash.
func (s hasher) sum(text string) uint64 {
	last := uint64(len(text)) << 56
	for ; len(text) >= 8; text = text[8:] {
		s = s.word(load64(unsafe.Pointer(unsafe.StringData(text))))
	}
	s = s.word(last | tail(text))
	s.v2 ^= 0xff
	s = s.round().round().round()
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

// tail returns up to seven bytes as a word.
func tail(text string) uint64 {
	var w uint64
	for i := range len(text) {
		w |= uint64(text[i]) << (8 * i)
	}
	return w
}

// load64 reads the eight bytes at p.
func load64(p unsafe.Pointer) uint64 { return binary.LittleEndian.Uint64((*[8]byte)(p)[:]) }

// schedule hashes short keys in a quarter of the time of SipHash. Its words are random: SipHash derives them from the
// secret and from what precedes the key in an address.
//
// A key is split into words, the last of which contains its length, so different keys have different words. Each word is
// added to one of the schedule, and the products of pairs of them are summed up, in 128 bits. This is the hash NH of UMAC,
// for which it is proven that two inputs chosen without knowledge of the random words have the same sum with a probability
// of at most 2^-63. One more multiplication reduces the 128 bits to 64, and hides how they were made.
type schedule struct {
	words [shortWords]uint64
	fold  [2]uint64
}

const (
	shortWords = 8
	shortKey   = 8*shortWords - 1 // the longest key, in bytes: the last word holds seven and the length
)

func newSchedule(h hasher) schedule {
	var s schedule
	for i := range s.words {
		s.words[i] = h.word(uint64(i)).sum("")
	}
	for i := range s.fold {
		s.fold[i] = h.word(uint64(shortWords + i)).sum("")
	}
	return s
}

// sum returns the hash of a key of at most shortKey bytes. Lengths and positions are unsigned here, because remainders of
// signed numbers are slower.
func (s *schedule) sum(key string) uint64 {
	p, left := unsafe.Pointer(unsafe.StringData(key)), uint(len(key))
	last := uint64(left) << 56
	if rest := left % 8; left < 8 {
		last |= tail(key)
	} else if rest > 0 {
		// The bytes after the last whole word are the upper part of the last eight bytes.
		last |= load64(unsafe.Add(p, left-8)) >> ((64 - 8*rest) & 63)
	}
	var hi, lo, carry uint64
	i := uint(0)
	for left >= 16 {
		h, l := bits.Mul64(load64(p)+s.words[i%shortWords], load64(unsafe.Add(p, 8))+s.words[(i+1)%shortWords])
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry)
		i += 2
		if left -= 16; left > 0 {
			p = unsafe.Add(p, 16) // never past the end of the key
		}
	}
	a, b := last, uint64(0)
	if left >= 8 {
		a, b = load64(p), last
	}
	h, l := bits.Mul64(a+s.words[i%shortWords], b+s.words[(i+1)%shortWords])
	lo, carry = bits.Add64(lo, l, 0)
	hi, _ = bits.Add64(hi, h, carry)
	h, l = bits.Mul64(hi^s.fold[0], lo^s.fold[1])
	return h ^ l
}
