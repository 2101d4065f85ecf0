package store

import (
	"hash/fnv"

	"github.com/slidegate/slidegate/rule"
)

// IDOf returns the number by which stores know a reservation: a hash of its ID as callers have it, which is never 0. Callers
// choose IDs at random, so two reservations of one key that share a number are as good as impossible.
func IDOf(reservation string) rule.ID {
	hash := fnv.New64a()
	hash.Write([]byte(reservation))
	return rule.ID(max(1, hash.Sum64()))
}
