package answering_test

import (
	"testing"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
)

// A mark and a time are both found again, a marked time is negative, and a time of the store has no mark.
func TestMark(t *testing.T) {
	for _, at := range []rule.Micros{1, 42, 1_800_000_000_000_000, 1<<53 - 1} {
		for _, mark := range []int{0, 1, 500, answering.MaxMark} {
			marked := answering.Mark(at, mark)
			if back, found := answering.Unmark(marked); marked >= 0 || back != at || found != mark {
				t.Errorf("%d with mark %d: got %d, of which %d and %d come back", at, mark, marked, back, found)
			}
		}
		if back, mark := answering.Unmark(at); back != at || mark != -1 {
			t.Errorf("%d: got %d and mark %d, want no mark", at, back, mark)
		}
	}
}
