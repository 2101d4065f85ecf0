package memstore

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// hashKey is the secret of the hash: 128 random bits, saved with a snapshot so that restored state is found again.
type hashKey [16]byte

// hasher is the state of SipHash-1-3, a keyed hash that was made for hash tables under attack: without the key, nobody
// can tell which inputs collide. The part of an address that comes before the key is absorbed once per limit, not once
// per decision.
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

// field absorbs a field in whole words, its length first, so that it cannot run into what follows.
func (s hasher) field(text string) hasher {
	s = s.word(uint64(len(text)))
	for ; len(text) >= 8; text = text[8:] {
		s = s.word(load64(text))
	}
	if len(text) > 0 {
		s = s.word(tail(text))
	}
	return s
}

// sum absorbs the last part of the input and returns the hash. It is written out, because a decision waits for it.
func (s hasher) sum(text string) uint64 {
	v0, v1, v2, v3 := s.v0, s.v1, s.v2, s.v3
	last := uint64(len(text)) << 56
	if len(text) >= 8 {
		// What is left over after whole words is the upper part of the last eight bytes.
		last |= load64(text[len(text)-8:]) >> (64 - 8*(len(text)%8))
	} else {
		last |= tail(text)
	}
	for {
		w := last
		if len(text) >= 8 {
			w = load64(text)
		}
		v3 ^= w
		v0 += v1
		v2 += v3
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v2 += v1
		v0 = bits.RotateLeft64(v0, 32) + v3
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 = bits.RotateLeft64(v2, 32)
		v0 ^= w
		if len(text) < 8 {
			break
		}
		text = text[8:]
	}
	v2 ^= 0xff
	for range 3 {
		v0 += v1
		v2 += v3
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v2 += v1
		v0 = bits.RotateLeft64(v0, 32) + v3
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 = bits.RotateLeft64(v2, 32)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

// tail returns up to seven bytes as a word.
func tail(text string) uint64 {
	var w uint64
	switch n := len(text); {
	case n >= 4:
		w = uint64(load32(text)) | uint64(load32(text[n-4:]))<<(8*(n-4))
	case n > 0:
		w = uint64(text[0]) | uint64(text[n/2])<<(8*(n/2)) | uint64(text[n-1])<<(8*(n-1))
	}
	return w
}

// load64 and load32 read from a string what encoding/binary would from a slice, without a copy.
func load64(text string) uint64 {
	return binary.LittleEndian.Uint64(unsafe.Slice(unsafe.StringData(text), 8))
}

func load32(text string) uint32 {
	return binary.LittleEndian.Uint32(unsafe.Slice(unsafe.StringData(text), 4))
}
