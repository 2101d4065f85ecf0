// Package leases has the rule for units that were charged in advance and are spent later, one by one, without a request to the
// store. What is admitted stays what the rule admits if the units of a window are spent in the part in which they were
// charged, because within a part the amount that counts against the quota never grows by itself. A token bucket has no parts:
// its units are spent within Life, and its burst is smaller by Reserve, for every process that uses the limit, whether it
// leases or not.
package leases

import (
	"math/bits"

	"github.com/slidegate/slidegate/rule"
)

// Life is how long after their charge the units of a token bucket may be spent.
const Life = rule.Micros(100_000)

// Reserve returns by how much a lease reduces the burst of a token bucket: what refills in Life.
func Reserve(l *rule.Limit) int64 {
	hi, lo := bits.Mul64(uint64(l.Quota), uint64(Life))
	units, rest := bits.Div64(hi, lo, uint64(l.Window))
	if rest > 0 {
		units++
	}
	return int64(units)
}

// Part returns the start of the part of the window that contains at, and the start of the next part. The limit must be a
// calendar window, or a window whose parts begin at multiples of their length.
func Part(l *rule.Limit, at rule.Micros) (start, end rule.Micros) {
	if l.Calendar != 0 {
		return l.Bounds(at)
	}
	part := l.Window / rule.Micros(max(1, l.Segments))
	start = at - at%part
	return start, start + part
}
