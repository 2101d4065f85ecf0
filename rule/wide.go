package rule

import "math/bits"

// wide is an unsigned integer of 128 bits, enough for any product of a count and a time in the accepted ranges.
type wide struct{ hi, lo uint64 }

// product returns units*time. Neither may be negative.
func product(units int64, time Micros) wide {
	hi, lo := bits.Mul64(uint64(units), uint64(time))
	return wide{hi, lo}
}

func (x wide) plus(y wide) wide {
	lo, carry := bits.Add64(x.lo, y.lo, 0)
	hi, _ := bits.Add64(x.hi, y.hi, carry)
	return wide{hi, lo}
}

// minus returns x-y, which must not be negative.
func (x wide) minus(y wide) wide {
	lo, borrow := bits.Sub64(x.lo, y.lo, 0)
	hi, _ := bits.Sub64(x.hi, y.hi, borrow)
	return wide{hi, lo}
}

func (x wide) above(y wide) bool {
	return x.hi > y.hi || x.hi == y.hi && x.lo > y.lo
}

// over returns x/d and the remainder, for quotients that fit in 63 bits; the accepted ranges of a Limit guarantee that.
func (x wide) over(d int64) (quotient, rest int64) {
	if x.hi == 0 {
		q := x.lo / uint64(d)
		return int64(q), int64(x.lo - q*uint64(d))
	}
	q, r := bits.Div64(x.hi, x.lo, uint64(d))
	return int64(q), int64(r)
}

// overUp returns x/d rounded up.
func (x wide) overUp(d int64) int64 {
	q, r := x.over(d)
	if r > 0 {
		q++
	}
	return q
}
