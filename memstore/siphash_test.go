package memstore

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// plainHash is SipHash with c and d rounds, written as its paper has it.
func plainHash(c, d int, key [16]byte, text []byte) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])
	v := [4]uint64{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	round := func() {
		v[0] += v[1]
		v[1] = bits.RotateLeft64(v[1], 13)
		v[1] ^= v[0]
		v[0] = bits.RotateLeft64(v[0], 32)
		v[2] += v[3]
		v[3] = bits.RotateLeft64(v[3], 16)
		v[3] ^= v[2]
		v[0] += v[3]
		v[3] = bits.RotateLeft64(v[3], 21)
		v[3] ^= v[0]
		v[2] += v[1]
		v[1] = bits.RotateLeft64(v[1], 17)
		v[1] ^= v[2]
		v[2] = bits.RotateLeft64(v[2], 32)
	}
	padded := append([]byte(nil), text...)
	for len(padded)%8 != 7 {
		padded = append(padded, 0)
	}
	padded = append(padded, byte(len(text)))
	for ; len(padded) > 0; padded = padded[8:] {
		m := binary.LittleEndian.Uint64(padded)
		v[3] ^= m
		for range c {
			round()
		}
		v[0] ^= m
	}
	v[2] ^= 0xff
	for range d {
		round()
	}
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

// The published test value of SipHash-2-4 shows that plainHash is SipHash; ours must be the same with one and three rounds.
func TestHashIsSipHash(t *testing.T) {
	var key [16]byte
	text := make([]byte, 15)
	for i := range key {
		key[i] = byte(i)
	}
	for i := range text {
		text[i] = byte(i)
	}
	if got := plainHash(2, 4, key, text); got != 0xa129ca6149be45e5 {
		t.Fatalf("plainHash is not SipHash: %x", got)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		for i := range key {
			key[i] = byte(random.Uint32())
		}
		if got, want := newHasher(key).sum(string(text)), plainHash(1, 3, key, text); got != want {
			t.Fatalf("%d bytes: %x, want %x", n, got, want)
		}
	}
}

// Where a field ends and the next begins must not be for the caller to choose.
func TestHashKeepsFieldsApart(t *testing.T) {
	seen := map[uint64][2]string{}
	for _, pair := range [][2]string{
		{"", ""}, {"", "a"}, {"a", ""}, {"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"", "abc"},
		{"\x00", ""}, {"", "\x00"}, {"\x00\x00", ""}, {"12345678", ""}, {"", "12345678"}, {"1234567", "8"},
	} {
		h := newHasher(hashKey{1}).field(pair[0]).sum(pair[1])
		if other, ok := seen[h]; ok {
			t.Errorf("%q and %q have the same hash", pair, other)
		}
		seen[h] = pair
	}
}
