package generate

import (
	"math"
	"math/rand/v2"
)

// zipf picks numbers from 1 to n, where k has the weight k^-(9/8), by rejection-inversion (W. Hörmann, G. Derflinger,
// "Rejection-inversion to generate variates from monotone discrete distributions", 1996). It needs no table, and with
// this exponent only sums, products, quotients and square roots, which all platforms round alike. Products that are
// operands of a sum are converted explicitly, which prevents the compiler from fusing the two operations into one
// rounding.
type zipf struct {
	n       float64
	low     float64 // tailArea(n + 1/2)
	width   float64 // up to tailArea(3/2) + 1, where 1 is the weight of the number 1
	squeeze float64 // a number that exceeds its x by at most this is accepted without further checks
}

func newZipf(n int64) zipf {
	z := zipf{n: float64(n)}
	z.low = tailArea(z.n + 0.5)
	z.width = tailArea(1.5) + 1 - z.low
	z.squeeze = 2 - inverse(tailArea(2.5)+weight(2))
	return z
}

func (z *zipf) pick(rng *rand.PCG) int64 {
	for {
		share := float64(rng.Uint64()>>11) * 0x1p-53 // exact: a power of two
		area := z.low + float64(share*z.width)
		x := inverse(area)
		k := min(max(math.Floor(x+0.5), 1), z.n)
		if k-x <= z.squeeze || area <= tailArea(k+0.5)+weight(k) {
			return int64(k)
		}
	}
}

func weight(x float64) float64 { return 1 / (x * eighthRoot(x)) }

// tailArea is the area under weight from x to infinity.
func tailArea(x float64) float64 { return 8 / eighthRoot(x) }

// inverse returns the x for which tailArea(x) is area.
func inverse(area float64) float64 {
	root := 8 / area
	square := root * root
	fourth := square * square
	return float64(fourth * fourth)
}

func eighthRoot(x float64) float64 { return math.Sqrt(math.Sqrt(math.Sqrt(x))) }
