package replay

import "github.com/slidegate/slidegate/rule"

// censusBuckets is the resolution of the time until a state expires.
const censusBuckets = 128

// census counts how many keys had a live state at the same time, and the bytes of these states. A state is counted
// until the end of the bucket of time in which it expires, so the figures are a little high, never low.
type census struct {
	width   rule.Micros
	now     int64 // the bucket of the current time
	expires [censusBuckets]population
	alive   population
	peak    population // the most keys and the most bytes, not necessarily at the same time
}

type population struct{ keys, bytes int64 }

// liveState is a state in the census: its size, and when it expires. The zero value means no state.
type liveState struct {
	until rule.Micros
	bytes int64
}

// newCensus returns a census of states that expire less than horizon after the latest time seen.
func newCensus(horizon rule.Micros) *census {
	return &census{width: horizon/(censusBuckets-1) + 1}
}

// change records that the state of a key changed from before to after.
func (c *census) change(now rule.Micros, before, after liveState) {
	c.advance(int64(now / c.width))
	if before == after {
		return
	}
	c.move(before, -1)
	c.move(after, 1)
	c.peak.keys = max(c.peak.keys, c.alive.keys)
	c.peak.bytes = max(c.peak.bytes, c.alive.bytes)
}

// move adds or removes a state, unless it has expired and so has been removed already.
func (c *census) move(s liveState, sign int64) {
	bucket := int64(s.until / c.width)
	if bucket < c.now || s.bytes == 0 {
		return
	}
	if bucket >= c.now+censusBuckets {
		panic("replay: a state that expires beyond the horizon")
	}
	at := &c.expires[bucket%censusBuckets]
	at.keys += sign
	at.bytes += sign * s.bytes
	c.alive.keys += sign
	c.alive.bytes += sign * s.bytes
}

// advance removes the states that expired before the bucket to.
func (c *census) advance(to int64) {
	for c.now < to {
		if c.alive.keys == 0 {
			c.now = to
			return
		}
		at := &c.expires[c.now%censusBuckets]
		c.alive.keys -= at.keys
		c.alive.bytes -= at.bytes
		*at = population{}
		c.now++
	}
}
