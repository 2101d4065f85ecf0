package generate

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// few is how many moments are drawn and sorted on the spot.
const few = 16

// arrivals yields independent uniform moments in order, each a share of the whole in 1/2^64, by halving as the package
// comment describes.
type arrivals struct {
	rng     *rand.PCG
	waiting []half      // right halves, the next one last; never more than there are levels
	sorted  [few]uint64 // the moments of the interval that is being yielded
	next    int         // the place in sorted of the next moment
	end     int         // and of the first one that is none
}

// half is an interval whose moments are still to be drawn.
type half struct {
	start    uint64
	bits     int // its length is 2^bits
	requests int64
}

func newArrivals(rng *rand.PCG, requests int64) arrivals {
	waiting := make([]half, 0, 65)
	return arrivals{rng: rng, waiting: append(waiting, half{bits: 64, requests: requests})}
}

// moment returns the next moment, or false after the last one.
func (a *arrivals) moment() (uint64, bool) {
	for a.next == a.end {
		if len(a.waiting) == 0 {
			return 0, false
		}
		a.fill()
	}
	a.next++
	return a.sorted[a.next-1], true
}

// fill goes down to the leftmost interval that has few moments, and draws those.
func (a *arrivals) fill() {
	last := len(a.waiting) - 1
	h := a.waiting[last]
	a.waiting = a.waiting[:last]
	for h.requests > few { // there are fewer requests than moments, so this ends long before an interval has one alone
		h.bits--
		left := heads(a.rng, h.requests)
		a.waiting = append(a.waiting, half{h.start + 1<<h.bits, h.bits, h.requests - left})
		h.requests = left
	}
	a.next, a.end = 0, int(h.requests)
	for i := range a.end {
		a.sorted[i] = h.start + a.rng.Uint64()>>(64-h.bits)
	}
	slices.Sort(a.sorted[:a.end])
}

// heads tosses n coins and returns how many show heads.
func heads(rng *rand.PCG, n int64) (heads int64) {
	for ; n >= 64; n -= 64 {
		heads += int64(bits.OnesCount64(rng.Uint64()))
	}
	return heads + int64(bits.OnesCount64(rng.Uint64()>>(64-n)))
}
