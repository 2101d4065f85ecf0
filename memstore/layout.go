package memstore

import (
	"math/bits"

	"github.com/slidegate/slidegate/internal/quick"
	"github.com/slidegate/slidegate/rule"
)

// layout is how the state of the most common shapes is packed into one word, which a compare-and-swap can change: the
// number of the window, then some bits that distinguish owners of a slot, then the previous count, then the current one.
//
// Nothing in a word wraps around: pack rejects a window number or a count that does not fit, and the keys of that page move
// to the tall form. The window number counts from the table's first use and lasts for 4.4 years; the counts share the rest
// of the word. With a window of 1 ms a count goes up to 4095, with 1 s to 131071, with 1 h to 8388607.
type layout struct {
	window    rule.Micros
	parts     int   // 2, or 1 for a fixed window
	first     int64 // the window that would have number 0, which stands for an absent state
	countBits uint
	maxCount  int64
	indexAt   uint // where the window number begins
	maxIndex  uint64
	// owner masks the bits that are incremented when a slot passes from one live key to another, so that a request that
	// read the old key's word cannot swap it for a word of the new key; nextOwner is the lowest of these bits.
	owner, nextOwner uint64
}

const (
	horizon   = rule.Micros(1) << 47
	ownerBits = 2
	// locked is the word of a slot that is being changed under the page's lock. It is not a packed state, because its
	// window number is out of range.
	locked = ^uint64(0)
)

// packable reports whether states of this shape can be packed: at most two counts, and windows that start at multiples of
// their length.
func packable(l *rule.Limit) bool { return l.Anchor == rule.AnchorClock && quick.IsPair(l) }

func newLayout(limit *rule.Limit, now rule.Micros) layout {
	indexBits := uint(bits.Len64(uint64(horizon/limit.Window) + 14)) // windows of years need a few numbers too
	countBits := min((64-ownerBits-indexBits)/2, 53)
	return layout{
		window: limit.Window, parts: limit.Parts(),
		first:     int64(now/limit.Window) - 3,
		countBits: countBits, maxCount: 1<<countBits - 1,
		indexAt: 64 - indexBits, maxIndex: 1<<indexBits - 2,
		owner: (1<<ownerBits - 1) << (2 * countBits), nextOwner: 1 << (2 * countBits),
	}
}

// unpack reads a word into s, whose Counts must have capacity for two.
func (y *layout) unpack(word uint64, s *rule.State) {
	s.Start = rule.Absent
	if index := word >> y.indexAt; index > 0 {
		s.Start = rule.Micros(y.first+int64(index)) * y.window
	}
	s.Counts[0] = int64(word) & y.maxCount
	if y.parts == 2 {
		s.Counts[1] = int64(word>>y.countBits) & y.maxCount
	}
}

// pack returns s as a word, or false if it does not fit.
func (y *layout) pack(s *rule.State) (word uint64, ok bool) {
	if s.Start == rule.Absent {
		return 0, true
	}
	index := int64(s.Start/y.window) - y.first
	if !y.validIndex(index) || s.Counts[0] > y.maxCount {
		return 0, false
	}
	word = uint64(index)<<y.indexAt | uint64(s.Counts[0])
	if y.parts == 2 {
		if s.Counts[1] > y.maxCount {
			return 0, false
		}
		word |= uint64(s.Counts[1]) << y.countBits
	}
	return word, true
}

// validIndex reports whether a window can have this number.
func (y *layout) validIndex(index int64) bool { return index > 0 && uint64(index) <= y.maxIndex }

// expires returns the time from which a word decides like an absent one.
func (y *layout) expires(word uint64) rule.Micros {
	index := int64(word >> y.indexAt)
	if index == 0 {
		return 0
	}
	return rule.Micros(y.first+index+int64(y.parts)) * y.window
}

// weight returns approximately how many units count at now.
func (y *layout) weight(word uint64, now rule.Micros) int64 {
	start := rule.Micros(y.first+int64(word>>y.indexAt)) * y.window
	current, previous := int64(word)&y.maxCount, int64(word>>y.countBits)&y.maxCount
	if now >= start+y.window {
		return current
	}
	return current + previous
}

// fits reports whether a state can be packed after up to cost more units at now.
func (y *layout) fits(s *rule.State, now rule.Micros, cost int64) bool {
	for _, start := range [...]rule.Micros{now, s.Start} {
		if start != rule.Absent && !y.validIndex(int64(start/y.window)-y.first) {
			return false
		}
	}
	return s.Counts[0]+cost <= y.maxCount
}
