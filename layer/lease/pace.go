package lease

import "time"

// pace is how fast units of a key are spent, which the next block is sized by. To size it by what was granted would run away.
type pace struct {
	began  int64 // when the current measurement began
	spent  int64 // what was spent by then
	waited int64 // for how long since then requests waited for a block, and could spend nothing
	last   int64 // units that the one before would have come to in span
}

const (
	// span is how long a block is to last. It is asked for when a quarter of the one before is left, so there are about 22 calls a
	// second.
	span = int64(60 * time.Millisecond)
	// measured is how long a measurement takes, and shortest how long at least before it is believed.
	measured = int64(50 * time.Millisecond)
	shortest = int64(5 * time.Millisecond)
	// share is the part of what remains that a process takes at most.
	share = 8
)

// units returns what is spent in span, at the pace of now. The time in which requests waited for a block does not count: with a
// store that takes as long as a block lasts, blocks would get smaller and smaller. Most of it does not, to be exact, for what
// has piled up meanwhile is spent at once.
func (p *pace) units(now int64, spent int64) int64 {
	elapsed := max(now-p.began, shortest)
	active := max(elapsed-p.waited, elapsed/4, shortest)
	units := int64(float64(spent-p.spent) * float64(span) / float64(active))
	if elapsed >= measured {
		*p = pace{began: now, spent: spent, last: units}
	}
	return max(units, p.last)
}

// start begins with a pace that is known from elsewhere.
func (p *pace) start(now int64, spent int64, units int64) {
	*p = pace{began: now, spent: spent, last: units}
}

// longestTrip is the time of a call that blocks are made to bridge at most.
const longestTrip = int64(200 * time.Millisecond)

// blockSize returns how many units to ask for: what is spent in span and while the block after it is on its way, or until the part
// ends if that is sooner.
func blockSize(pace, trip, lasts, remains int64) int64 {
	units := int64(float64(pace) * float64(min(span+trip, lasts)) / float64(span))
	return max(1, min(units, remains/share))
}

// lowMark returns with how many units left of a block it is time to ask for the next one.
func lowMark(size, trip int64) int64 {
	return max(size/4, int64(float64(size)*float64(trip)/float64(span+trip)))
}
