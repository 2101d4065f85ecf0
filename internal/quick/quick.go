// Package quick decides the most common requests as package rule does, in less time: for stores that keep states in their own
// forms, as plain numbers of 64 bits. It leaves all others to the rule. Random tests in package rule keep the two equal.
package quick

import (
	"math/bits"

	"github.com/slidegate/slidegate/rule"
)

// Outcome is what a quick decision came to.
type Outcome uint8

// Values of Outcome.
const (
	Undecided Outcome = iota // the rule must decide; nothing has changed
	Refused
	Admitted
)

// weigh returns the weight of a count of which covered/part lies in the window.
func weigh(l *rule.Limit, count int64, covered, part rule.Micros) int64 {
	if count == 0 || covered == part || l.Overlap == rule.OverlapWhole {
		return count
	}
	hi, lo := bits.Mul64(uint64(count), uint64(covered))
	weight, rest := bits.Div64(hi, lo, uint64(part))
	if rest > 0 && l.Overlap == rule.OverlapUp {
		weight++
	}
	return int64(weight)
}

// maxCovered returns how much of the part that contains count may at most lie in the window for count to weigh no more than
// room, which is less than count. It is 0 if count weighs more however little is covered.
func maxCovered(l *rule.Limit, count, room int64, part rule.Micros) rule.Micros {
	if l.Overlap == rule.OverlapWhole || room == 0 && l.Overlap == rule.OverlapUp {
		return 0
	}
	hi, lo := bits.Mul64(uint64(room), uint64(part))
	if l.Overlap == rule.OverlapDown { // a weight of less than room+1 is rounded down to room
		var carry uint64
		lo, carry = bits.Add64(lo, uint64(part)-1, 0)
		hi += carry
	}
	covered, _ := bits.Div64(hi, lo, uint64(count))
	return rule.Micros(covered)
}
