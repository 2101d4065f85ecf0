package generate

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// maxDirect is the maximum number of arrival times that are drawn and sorted directly.
const maxDirect = 16

// arrivals yields independent uniform arrival times in order, each a fraction of the whole in units of 1/2^64, by halving
// as the package comment describes.
type arrivals struct {
	rng     *rand.PCG
	pending []half            // right halves, the next one last; at most one per level
	sorted  [maxDirect]uint64 // the arrival times of the current interval
	next    int               // the index in sorted of the next arrival time
	end     int               // the number of arrival times in sorted
}

// half is an interval whose arrival times have not been drawn yet.
type half struct {
	start    uint64
	bits     int // its length is 2^bits
	requests int64
}

func newArrivals(rng *rand.PCG, requests int64) arrivals {
	pending := make([]half, 0, 65)
	return arrivals{rng: rng, pending: append(pending, half{bits: 64, requests: requests})}
}

// moment returns the next arrival time, or false after the last one.
func (a *arrivals) moment() (uint64, bool) {
	for a.next == a.end {
		if len(a.pending) == 0 {
			return 0, false
		}
		a.fill()
	}
	a.next++
	return a.sorted[a.next-1], true
}

// fill descends to the leftmost interval with few arrival times, and draws them.
func (a *arrivals) fill() {
	last := len(a.pending) - 1
	h := a.pending[last]
	a.pending = a.pending[:last]
	for h.requests > maxDirect { // there are far fewer requests than possible times, so this ends long before an interval has length 1
		h.bits--
		left := heads(a.rng, h.requests)
		a.pending = append(a.pending, half{h.start + 1<<h.bits, h.bits, h.requests - left})
		h.requests = left
	}
	a.next, a.end = 0, int(h.requests)
	for i := range a.end {
		a.sorted[i] = h.start + a.rng.Uint64()>>(64-h.bits)
	}
	slices.Sort(a.sorted[:a.end])
}

// heads tosses n coins and returns the number of heads.
func heads(rng *rand.PCG, n int64) (heads int64) {
	for ; n >= 64; n -= 64 {
		heads += int64(bits.OnesCount64(rng.Uint64()))
	}
	return heads + int64(bits.OnesCount64(rng.Uint64()>>(64-n)))
}
