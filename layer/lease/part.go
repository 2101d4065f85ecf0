package lease

import "github.com/slidegate/slidegate/rule"

// mostLife is how long a block lives at most: that bounds what a clock of the store that was set can do.
const mostLife = rule.Micros(1_000_000)

// partEnd returns where the part ends that a moment lies in.
func partEnd(r *rule.Limit, at rule.Micros) rule.Micros {
	_, end := r.Part(at)
	return end
}

// life returns how long a block may be spent that was charged at a moment of the store's clock, from then on, in nanoseconds
// of the local clock. A local clock that is slow by up to a thousandth still sees the end in time. So does one that counts from
// the moment itself, which the store has rounded down to a microsecond.
func life(r *rule.Limit, at rule.Micros) int64 {
	left := rule.LeaseLife
	if r.Algorithm != rule.TokenBucket {
		left = min(partEnd(r, at)-at, mostLife)
	}
	left--
	return int64(left)*1000 - int64(left)
}
