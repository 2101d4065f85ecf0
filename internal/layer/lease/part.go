package lease

import (
	"github.com/slidegate/slidegate/rule"

	"github.com/slidegate/slidegate/internal/leases"
)

// maxLife is the longest life of a lease: it bounds the effect of setting the store's clock.
const maxLife = rule.Micros(1_000_000)

// partEnd returns the end of the part that contains at.
func partEnd(r *rule.Limit, at rule.Micros) rule.Micros {
	_, end := leases.Part(r, at)
	return end
}

// life returns how long a lease that was charged at at, a time of the store's clock, may be spent from then on, in
// nanoseconds of the local clock. A local clock that is slow by up to a thousandth still sees the end in time. So does
// one that counts from the time of the charge, which the store has rounded down to a microsecond.
func life(r *rule.Limit, at rule.Micros) int64 {
	left := leases.Life
	if r.Algorithm != rule.TokenBucket {
		left = min(partEnd(r, at)-at, maxLife)
	}
	left--
	return int64(left)*1000 - int64(left)
}
