// Package lanes provides counters that many processors write at the same time. A cache line that several processors write
// to has to travel between them, so each set of counters exists several times, in lanes, and a caller picks one: by a hash,
// at random, or by what belongs to its processor. A count is the sum over all lanes.
package lanes

import (
	"runtime"
	"sync/atomic"
)

const (
	lineCounts = 8  // counters in a cache line
	most       = 64 // lanes, which bounds the memory of a set
)

// Count returns how many lanes there are: a power of two, and more than processors, because two may pick the same lane.
func Count() int {
	lanes := 1
	for lanes < 4*runtime.GOMAXPROCS(0) && lanes < most {
		lanes *= 2
	}
	return lanes
}

// Counters is a set of counters. It is safe for concurrent use. The zero value is not usable; call New.
type Counters struct {
	cells []atomic.Int64
	width int // counters of a lane, in whole cache lines
	mask  uint32
}

// New returns this many counters. Those with small indexes share a cache line: let these be the most common.
func New(counts int) Counters {
	lanes, width := Count(), (counts+lineCounts-1)/lineCounts*lineCounts
	return Counters{cells: make([]atomic.Int64, lanes*width), width: width, mask: uint32(lanes - 1)}
}

// Lane returns the counters of a lane. Any number is a lane.
func (c *Counters) Lane(lane uint32) []atomic.Int64 {
	from := int(lane&c.mask) * c.width
	return c.cells[from : from+c.width]
}

// Sum returns a count.
func (c *Counters) Sum(index int) (sum int64) {
	for ; index < len(c.cells); index += c.width {
		sum += c.cells[index].Load()
	}
	return sum
}
