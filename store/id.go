package store

import (
	"hash/fnv"

	"github.com/slidegate/slidegate/rule"
)

// IDOf returns the number by which stores identify a reservation: a hash of its ID, never 0. Callers choose IDs at random,
// so a collision between two reservations of one key is practically impossible.
func IDOf(reservation string) rule.ID {
	hash := fnv.New64a()
	hash.Write([]byte(reservation))
	return rule.ID(max(1, hash.Sum64()))
}
