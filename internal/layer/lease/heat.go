package lease

import (
	"sync/atomic"
	"time"
)

// heat counts roughly how often addresses are requested: addresses can share a cell, and counts can get lost. A key
// that is mistaken for a busy one costs a call for more units than it needs, which are then returned.
type heat struct{ cells []atomic.Uint64 }

const (
	heatCells = 1 << 14
	heatSpan  = int64(50 * time.Millisecond)
	// hotUnits is how many units in a span make a lease worth a call.
	hotUnits = 8
)

func newHeat() heat { return heat{make([]atomic.Uint64, heatCells)} }

// add counts units of an address, and returns the larger of the counts of this span and the previous one.
func (h *heat) add(hash uint64, now, units int64) int64 {
	cell := &h.cells[hash>>32%heatCells]
	span := uint64(now/heatSpan) & (1<<24 - 1)
	word := cell.Load()
	before, count := int64(word>>20&(1<<20-1)), int64(word&(1<<20-1))
	switch span - word>>40 {
	case 0:
	case 1:
		before, count = count, 0
	default:
		before, count = 0, 0
	}
	count = min(count+units, 1<<20-1)
	cell.Store(span<<40 | uint64(before)<<20 | uint64(count))
	return max(before, count)
}
