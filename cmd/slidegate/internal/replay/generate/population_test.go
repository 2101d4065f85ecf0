package generate

import "testing"

// In one round every key is picked once, whatever the number of keys and the seed.
func TestInTurn(t *testing.T) {
	for keys := int64(1); keys <= 60; keys++ {
		for seed := range uint64(50) {
			turn := newInTurn(random(seed, forTurns), keys)
			seen := map[int64]bool{}
			for range keys {
				k := turn.key(nil, 0)
				if k < 1 || k > keys || seen[k] {
					t.Fatalf("seed %d: %d of %d keys is picked again or does not exist", seed, k, keys)
				}
				seen[k] = true
			}
		}
	}
}

// Purposes must not share random numbers, or the keys would depend on the times.
func TestRandomNumbersAreNotShared(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(100) {
		for _, p := range []purpose{forArrivals, forKeys, forRaids, forTurns, forCosts, forLogs} {
			for k := range kinds {
				first := random(seed, p+purpose(k)).Uint64()
				if seen[first] {
					t.Fatalf("seed %d, purpose %d, kind %d: the random numbers are used elsewhere", seed, p, k)
				}
				seen[first] = true
			}
		}
	}
}
