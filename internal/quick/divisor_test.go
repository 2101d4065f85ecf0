package quick

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Multiplication by the reciprocal gives the same result as division, at the edges of quotients and of the range.
func TestDivisorSameAsDivision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		by := rapid.Int64Range(1, math.MaxInt64).Draw(t, "by")
		d := newDivisor(by)
		x := rapid.Uint64().Draw(t, "x")
		if rapid.Bool().Draw(t, "next to a multiple") {
			x = x/uint64(by)*uint64(by) + uint64(rapid.IntRange(-1, 1).Draw(t, "beside"))
		}
		up := x / uint64(by)
		if x%uint64(by) > 0 {
			up++
		}
		if d.over(x) != x/uint64(by) || d.overUp(x) != up {
			t.Fatalf("%d / %d: want %d, rounded up %d, got %d and %d", x, by, x/uint64(by), up, d.over(x), d.overUp(x))
		}
	})
}
