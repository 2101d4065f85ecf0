package rule

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// The 128-bit arithmetic gives the same results as math/big.

func (x wide) big() *big.Int {
	n := new(big.Int).SetUint64(x.hi)
	return n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(x.lo))
}

func TestWideSameAsBig(t *testing.T) {
	property(t, 3_000, func(t *rapid.T) {
		var n [4]int64
		for i := range n {
			n[i] = draw[int64](t, "factor", 0, MaxQuota)
		}
		x, y := product(n[0], Micros(n[1])), product(n[2], Micros(n[3]))
		a := new(big.Int).Mul(big.NewInt(n[0]), big.NewInt(n[1]))
		b := new(big.Int).Mul(big.NewInt(n[2]), big.NewInt(n[3]))
		switch {
		case x.big().Cmp(a) != 0:
			t.Fatalf("%v is not the product of %v", x, n[:2])
		case x.plus(y).big().Cmp(new(big.Int).Add(a, b)) != 0:
			t.Fatalf("%v + %v is not %v", x, y, x.plus(y))
		case x.above(y) != (a.Cmp(b) > 0) || y.above(x) != (a.Cmp(b) < 0) || x.above(x):
			t.Fatalf("%v above %v is %v", x, y, x.above(y))
		case !y.above(x) && x.minus(y).big().Cmp(new(big.Int).Sub(a, b)) != 0:
			t.Fatalf("%v - %v is not %v", x, y, x.minus(y))
		}
		divisor := draw[int64](t, "divisor", 1, MaxQuota)
		quotient, rest := new(big.Int).QuoRem(a, big.NewInt(divisor), new(big.Int))
		if quotient.BitLen() > 62 {
			return // unreachable for limits in the accepted ranges
		}
		if q, r := x.over(divisor); q != quotient.Int64() || r != rest.Int64() {
			t.Fatalf("%v / %d is %d, %d over; want %v, %v", x, divisor, q, r, quotient, rest)
		}
		if rest.Sign() > 0 {
			quotient.Add(quotient, big.NewInt(1))
		}
		if q := x.overUp(divisor); q != quotient.Int64() {
			t.Fatalf("%v / %d rounded up is %d, want %v", x, divisor, q, quotient)
		}
	})
}
