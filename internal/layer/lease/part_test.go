package lease

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// The store reports only the microsecond in which it charged a lease. The lease must end before its part does, even if
// it was charged at the very end of that microsecond.
func TestLifeEndsWithThePart(t *testing.T) {
	window := rule.Limit{Algorithm: rule.SlidingWindow, Segments: 4, Quota: 100, Window: 400_000}
	for _, left := range []rule.Micros{1, 2, 500, 1_000, 99_999, 100_000} {
		end := rule.Micros(7_000_000)
		charged := nanos(end-left) + 999
		if over := charged + life(&window, end-left) - nanos(end); over > 0 {
			t.Errorf("a lease charged %dus before the end of its part outlives it by %v", left, time.Duration(over))
		}
	}
}

// A local clock that is slow by a thousandth still sees the end of a lease before the part ends.
func TestLifeAllowsForASlowClock(t *testing.T) {
	window := rule.Limit{Algorithm: rule.SlidingWindow, Segments: 4, Quota: 100, Window: 400_000}
	for _, left := range []rule.Micros{1_000, 50_000, 99_999, 100_000} {
		at := 7_000_000 - left
		if passed := life(&window, at) * 1000 / 999; passed > nanos(left) {
			t.Errorf("a lease charged %dus before the end of its part outlives it by %v", left, time.Duration(passed-nanos(left)))
		}
	}
}
