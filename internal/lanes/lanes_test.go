package lanes_test

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/slidegate/slidegate/internal/lanes"
)

// No count is lost when several goroutines use one lane, and lanes do not share counters.
func TestSum(t *testing.T) {
	const counts, each = 9, 10_000
	c := lanes.New(counts)
	var working sync.WaitGroup
	for worker := range uint32(4) {
		working.Go(func() {
			for range each {
				lane := c.Lane(worker / 2)
				lane[0].Add(1)
				lane[counts-1].Add(2)
			}
		})
	}
	working.Wait()
	c.Lane(1 << 31)[1].Add(5) // any number is a lane
	for index, want := range map[int]int64{0: 4 * each, 1: 5, 2: 0, counts - 1: 8 * each} {
		if got := c.Sum(index); got != want {
			t.Errorf("count %d: got %d, want %d", index, got, want)
		}
	}
}

// A lane is a whole number of cache lines, so that two lanes share none.
func TestLayout(t *testing.T) {
	for _, counts := range []int{1, 8, 9, 22} {
		c := lanes.New(counts)
		first, second := c.Lane(0), c.Lane(1)
		if n := len(first); n < counts || n%8 != 0 {
			t.Errorf("%d counts: got a lane of %d, want a multiple of 8 that holds them", counts, n)
		}
		if apart := uintptr(unsafe.Pointer(&second[0])) - uintptr(unsafe.Pointer(&first[0])); lanes.Count() > 1 && apart != uintptr(len(first))*8 {
			t.Errorf("%d counts: lanes are %d bytes apart, want %d", counts, apart, len(first)*8)
		}
	}
}
