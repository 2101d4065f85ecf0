package main

import (
	"math/rand/v2"
	"strings"
)

// keys is a list of keys in a single block of memory, so that the list costs the garbage collector nothing, whatever its length.
//
// The load of the limiters is also a list of keys: copies in the order of access. The bytes of a key are then in the cache
// when the limiter gets them, as they are for a request that was just read, and they are not the same bytes that a limiter has
// stored, which would spare it the comparison.
type keys struct {
	block string
	n     int
}

const (
	keyPrefix = "user:"
	keyDigits = 12
	keyBytes  = len(keyPrefix) + keyDigits
)

func (k keys) at(i int) string { return k.block[i*keyBytes : (i+1)*keyBytes] }

// writeKey writes the key of a number, which is unique for numbers up to 10^12, since the multiplier is coprime to 10^12. The
// digits look random, as in real identifiers.
func writeKey(key []byte, number int) {
	copy(key, keyPrefix)
	id := uint64(number+1) * 618_033_989 % 1e12
	for d := keyBytes - 1; d >= len(keyPrefix); d-- {
		key[d] = byte('0' + id%10)
		id /= 10
	}
}

// newKeys returns n different keys, with consecutive numbers from first on.
func newKeys(first, n int) keys {
	var b strings.Builder
	b.Grow(n * keyBytes)
	var key [keyBytes]byte
	for i := range n {
		writeKey(key[:], first+i)
		b.Write(key[:])
	}
	return keys{b.String(), n}
}

// ordered returns a list of n keys of k, chosen by pick.
func (k keys) ordered(n int, pick func() int) keys {
	var b strings.Builder
	b.Grow(n * keyBytes)
	for range n {
		b.WriteString(k.at(pick()))
	}
	return keys{b.String(), n}
}

// uniform returns a list of n keys out of k, each as likely as any other.
func (k keys) uniform(n int, seed uint64) keys {
	r := rand.New(rand.NewPCG(seed, 1))
	return k.ordered(n, func() int { return r.IntN(k.n) })
}

const zipfS = 1.01

// zipf returns a list of n keys of k, of which few are frequent: the r-th with a probability proportional to 1/r^1.01. The frequent
// ones are not adjacent.
func (k keys) zipf(n int, seed uint64) keys {
	z := rand.NewZipf(rand.New(rand.NewPCG(seed, 2)), zipfS, 1, uint64(k.n-1))
	positions := rand.New(rand.NewPCG(0, 3)).Perm(k.n) // the same for every seed, so that all goroutines prefer the same keys
	return k.ordered(n, func() int { return positions[z.Uint64()] })
}

// perGoroutine returns one list for each of n goroutines, each in a different order.
func perGoroutine(n int, list func(seed uint64) keys) []keys {
	lists := make([]keys, n)
	for i := range lists {
		lists[i] = list(uint64(i) + 1)
	}
	return lists
}
