package lease

import "time"

// pace measures how fast units of a key are spent, which determines the size of the next lease. If leases were sized by
// what was granted, they would grow without bound.
type pace struct {
	began  int64 // when the current measurement began
	spent  int64 // what was spent by then
	waited int64 // how long since then requests waited for a lease, and could spend nothing
	last   int64 // units per span in the previous measurement
}

const (
	// span is how long a lease should last. The next one is requested when a quarter is left, so there are about 22
	// calls per second.
	span = int64(60 * time.Millisecond)
	// measureTime is how long a measurement takes, and minMeasure how long it must last to be used.
	measureTime = int64(50 * time.Millisecond)
	minMeasure  = int64(5 * time.Millisecond)
	// shareDivisor is the largest part of the remaining units that a process takes, as a divisor.
	shareDivisor = 8
)

// units returns what is spent per span at the current pace. Time in which requests waited for a lease does not count:
// with a store that takes as long as a lease lasts, leases would get smaller and smaller. To be exact, most of that
// time does not count, because the requests that piled up are then spent together.
func (p *pace) units(now int64, spent int64) int64 {
	elapsed := max(now-p.began, minMeasure)
	active := max(elapsed-p.waited, elapsed/4, minMeasure)
	units := int64(float64(spent-p.spent) * float64(span) / float64(active))
	if elapsed >= measureTime {
		*p = pace{began: now, spent: spent, last: units}
	}
	return max(units, p.last)
}

// start begins with a known pace.
func (p *pace) start(now int64, spent int64, units int64) {
	*p = pace{began: now, spent: spent, last: units}
}

// maxLatency is the longest call duration that leases are sized to bridge.
const maxLatency = int64(200 * time.Millisecond)

// leaseSize returns how many units to request: what is spent in a span and while the next lease is under way, or until
// the part ends if that is sooner.
func leaseSize(pace, latency, lasts, remains int64) int64 {
	units := int64(float64(pace) * float64(min(span+latency, lasts)) / float64(span))
	return max(1, min(units, remains/shareDivisor))
}

// lowMark returns the number of units left of a lease at which to request the next one.
func lowMark(size, latency int64) int64 {
	return max(size/4, int64(float64(size)*float64(latency)/float64(span+latency)))
}
