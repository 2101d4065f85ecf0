package lease

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// The store says only in which microsecond it has charged a block. The block must have ended before the part has, also if it
// was charged at the very end of that microsecond.
func TestLifeEndsWithThePart(t *testing.T) {
	window := rule.Limit{Algorithm: rule.SlidingWindow, Segments: 4, Quota: 100, Window: 400_000}
	for _, left := range []rule.Micros{1, 2, 500, 1_000, 99_999, 100_000} {
		end := rule.Micros(7_000_000)
		charged := nanos(end-left) + 999
		if over := charged + life(&window, end-left) - nanos(end); over > 0 {
			t.Errorf("%dus before the end of its part a block is charged that outlives it by %v", left, time.Duration(over))
		}
	}
}
