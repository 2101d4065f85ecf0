package lease

import "time"

// pace is how fast units of a key are spent, which the next block is sized by. To size it by what was granted would run away.
type pace struct {
	began int64 // when the current measurement began
	spent int64 // what was spent by then
	last  int64 // units that the one before would have come to in span
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

// units returns what is spent in span, at the pace of now.
func (p *pace) units(now int64, spent int64) int64 {
	elapsed := max(now-p.began, shortest)
	units := int64(float64(spent-p.spent) * float64(span) / float64(elapsed))
	if elapsed >= measured {
		p.began, p.spent, p.last = now, spent, units
	}
	return max(units, p.last)
}

// start begins with a pace that is known from elsewhere.
func (p *pace) start(now int64, spent int64, units int64) {
	*p = pace{began: now, spent: spent, last: units}
}

// blockSize returns how many units to ask for.
func blockSize(pace, remains int64) int64 { return max(1, min(pace, remains/share)) }
