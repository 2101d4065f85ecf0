package memstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// plainHash is SipHash with c and d rounds, written as in its paper.
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

// The published test value of SipHash-2-4 shows that plainHash is SipHash; hasher must equal it with one and three rounds.
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

// Callers must not be able to shift the boundary between two fields.
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

// plainShort is schedule.sum as its comment describes it, in unbounded integers.
func plainShort(s *schedule, key []byte) uint64 {
	var words []uint64
	padded := append([]byte(nil), key...)
	for len(padded)%8 != 7 {
		padded = append(padded, 0)
	}
	padded = append(padded, byte(len(key)))
	for ; len(padded) > 0; padded = padded[8:] {
		words = append(words, binary.LittleEndian.Uint64(padded))
	}
	if len(words)%2 == 1 {
		words = append(words, 0)
	}
	sum := new(big.Int)
	number := func(n uint64) *big.Int { return new(big.Int).SetUint64(n) }
	for i := 0; i < len(words); i += 2 {
		sum.Add(sum, new(big.Int).Mul(number(words[i]+s.words[i]), number(words[i+1]+s.words[i+1])))
	}
	sum.And(sum, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(1)))
	hi, lo := new(big.Int).Rsh(sum, 64).Uint64(), new(big.Int).And(sum, number(1<<64-1)).Uint64()
	product := new(big.Int).Mul(number(hi^s.fold[0]), number(lo^s.fold[1]))
	return new(big.Int).Rsh(product, 64).Uint64() ^ new(big.Int).And(product, number(1<<64-1)).Uint64()
}

func TestShortHashMatchesItsDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range shortKey + 1 {
		for range 20 {
			s := newSchedule(newHasher(hashKey{byte(random.Uint32()), 1}))
			key := make([]byte, n)
			for i := range key {
				key[i] = byte(random.Uint32() >> (random.IntN(4) * 8)) // zeros are frequent
			}
			if got, want := s.sum(string(key)), plainShort(&s, key); got != want {
				t.Fatalf("%d bytes: %x, want %x", n, got, want)
			}
		}
	}
}

// Similar keys must be spread over pages and home lines as if at random.
func TestShortHashSpreads(t *testing.T) {
	const keys, places = 1 << 18, 1 << 10
	s := newSchedule(newHasher(hashKey{1}))
	var pages, homes [places]int
	for i := range keys {
		h := s.sum(fmt.Sprintf("user:%d", i))
		pages[h>>54]++
		homes[homeOf(h, pageLines)]++
	}
	for what, counts := range map[string][]int{"pages": pages[:], "homes": homes[:pageLines]} {
		expected := float64(keys) / float64(len(counts))
		var chi float64
		for _, n := range counts {
			chi += (float64(n) - expected) * (float64(n) - expected) / expected
		}
		// The expected value is the degrees of freedom; six standard deviations above it are not chance.
		if free := float64(len(counts) - 1); chi > free+6*math.Sqrt(2*free) {
			t.Errorf("%s: chi squared is %.0f for %.0f degrees of freedom", what, chi, free)
		}
	}
}

// Of many short and similar keys, no two have the same hash: by chance that would happen in one run of 2^30.
func TestShortHashHasNoCollisions(t *testing.T) {
	s := newSchedule(newHasher(hashKey{2}))
	seen := map[uint64]string{}
	check := func(key string) {
		h := s.sum(key)
		if other, ok := seen[h]; ok && other != key {
			t.Fatalf("%q and %q have the same hash", key, other)
		}
		seen[h] = key
	}
	for n := range shortKey + 1 {
		zeros := make([]byte, n)
		check(string(zeros))
		for i := range zeros {
			for bit := range 8 {
				zeros[i] = 1 << bit
				check(string(zeros))
			}
			zeros[i] = 0
		}
	}
	for i := range 100_000 {
		check(fmt.Sprint(i))
	}
}
