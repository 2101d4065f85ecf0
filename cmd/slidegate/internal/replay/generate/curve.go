package generate

import (
	"math/bits"
	"math/rand/v2"

	"github.com/slidegate/slidegate/rule"
)

// curve describes how the rate of a population changes over time, as a sequence of pieces in order of time. They need not
// be adjacent, and none is empty.
type curve interface {
	// total returns the sum of all weights.
	total() uint64
	// piece returns the i-th piece, from 0.
	piece(i int64) piece
}

// piece is an interval in which the rate is constant.
type piece struct {
	start, end rule.Micros
	weight     uint64 // its share of the requests is weight/total
}

// stretch maps uniform arrival times to the times of a curve. The arrival times must not decrease: then their pieces
// do not decrease either, and no search is needed.
type stretch struct {
	curve  curve
	total  uint64
	number int64  // the index of the current piece
	piece  piece  // the current piece
	before uint64 // the weight of all pieces before it
}

func newStretch(c curve) stretch { return stretch{curve: c, total: c.total(), piece: c.piece(0)} }

// at returns the time at which a fraction, in units of 1/2^64, of the curve's total is reached.
func (s *stretch) at(moment uint64) rule.Micros {
	reached, fraction := bits.Mul64(moment, s.total)
	for reached-s.before >= s.piece.weight {
		s.before += s.piece.weight
		s.number++
		s.piece = s.curve.piece(s.number)
	}
	within := fraction
	if s.piece.weight != 1 {
		within, _ = bits.Div64(reached-s.before, fraction, s.piece.weight)
	}
	return s.piece.start + scale(within, s.piece.end-s.piece.start)
}

// scale returns a share of n, rounded down, where the share is in units of 1/2^64. The result is less than n, so a
// random share picks a random number below n.
func scale[N ~int64](share uint64, n N) N {
	high, _ := bits.Mul64(share, uint64(n))
	return N(high)
}

// equalPieces is a curve of a few pieces of equal weight.
type equalPieces []piece

func (r equalPieces) total() uint64       { return uint64(len(r)) }
func (r equalPieces) piece(i int64) piece { return r[i] }

// flat returns a curve with a constant rate.
func flat(from, to rule.Micros) equalPieces { return equalPieces{{from, to, 1}} }

// attack returns the curve of a botnet: it starts after a fifth of the span and stops a tenth before its end.
func attack(from, to rule.Micros) equalPieces {
	span := to - from
	return flat(from+span/5, to-span/10)
}

// raids returns the curve of a scraper: it is active once in each third of the span, for a quarter of the third, at a
// random time.
func raids(rng *rand.PCG, from, to rule.Micros) equalPieces {
	third := (to - from) / 3
	length := third / 4
	var r equalPieces
	for i := range rule.Micros(3) {
		start := from + i*third + scale(rng.Uint64(), third-length+1)
		r = append(r, piece{start, start + length, 1})
	}
	return r
}
