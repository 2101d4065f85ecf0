package httplimit

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestAppendNumber(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, n int64) {
		if got, want := string(appendNumber([]byte("n="), n)), "n="+strconv.FormatInt(n, 10); got != want {
			t.Fatalf("%d is written %q", n, got)
		}
	}
	for digits, n := 0, int64(1); digits < 19; digits, n = digits+1, n*10 { // around every power of ten
		check(t, n-1)
		check(t, n)
		check(t, n+1)
	}
	check(t, math.MaxInt64)
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.Int64Min(0).Draw(t, "n")) })
}

// What has been cut stays as it is, however much is cut after it.
func TestValuesStay(t *testing.T) {
	var lines [][]string
	for i := range 3 * linesInBlock {
		v := newValues(1, itemBytes)
		from := len(v.text)
		v.text = appendNumber(v.text, int64(i))
		lines = append(lines, v.line(v.cut(from)))
		v.giveBack()
	}
	for i, line := range lines {
		if len(line) != 1 || line[0] != strconv.Itoa(i) {
			t.Fatalf("the value %d is now %q", i, line)
		}
		if longer := append(line, "more"); &longer[0] == &line[0] {
			t.Fatalf("appending to the value %d writes into the block", i)
		}
	}
}
