package main

import (
	"math/rand/v2"
	"strings"
)

// keys is a list of keys that lie one after the other in a single block of memory, so that the list itself costs the
// garbage collector nothing, whatever its length.
//
// What the limiters are asked for is such a list too: the keys in the order of access, copied out. The bytes of the key
// are then in the cache when the limiter gets them, as those of a request that was just read are, and they are not
// the very bytes that a limiter has stored, which would spare it the comparison.
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

// writeKey writes the key of a number, which differs from those of all others up to 10^12. The digits look random, as
// those of real identifiers do, for the factor has none in common with 10^12.
func writeKey(key []byte, number int) {
	copy(key, keyPrefix)
	id := uint64(number+1) * 618_033_989 % 1e12
	for d := keyBytes - 1; d >= len(keyPrefix); d-- {
		key[d] = byte('0' + id%10)
		id /= 10
	}
}

// newKeys returns n different keys; those of different first numbers are different too.
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

// ordered returns a list of n keys out of k, as pick has it.
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

// zipf returns a list of n keys out of k, of which few are asked for often: the r-th with a likelihood of 1/r^1.01.
// The often asked ones do not lie together.
func (k keys) zipf(n int, seed uint64) keys {
	z := rand.NewZipf(rand.New(rand.NewPCG(seed, 2)), zipfS, 1, uint64(k.n-1))
	place := rand.New(rand.NewPCG(0, 3)).Perm(k.n) // the same for every seed: all goroutines want the same keys
	return k.ordered(n, func() int { return place[z.Uint64()] })
}

// perGoroutine returns one list for each of n goroutines, each in another order.
func perGoroutine(n int, list func(seed uint64) keys) []keys {
	lists := make([]keys, n)
	for i := range lists {
		lists[i] = list(uint64(i) + 1)
	}
	return lists
}
