package storetest

import (
	"runtime"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
)

// Clock is a clock that stands still until it is moved. It is safe for concurrent use. The zero value stands at the Unix
// epoch.
type Clock struct {
	now  atomic.Int64
	tick atomic.Int64 // how far every reading advances it; if not 0, readings also take long
}

// NewClock returns a clock that stands at now.
func NewClock(now rule.Micros) *Clock {
	c := &Clock{}
	c.Set(now)
	return c
}

// Now returns the time.
func (c *Clock) Now() rule.Micros {
	tick := c.tick.Load()
	if tick == 0 {
		return rule.Micros(c.now.Load())
	}
	now := c.now.Add(tick)
	for range now * 7 % 17 { // some longer than others: a request that reads the clock before its turn is overtaken now
		runtime.Gosched()
	}
	return rule.Micros(now)
}

// Set moves the clock to now, which may be earlier.
func (c *Clock) Set(now rule.Micros) { c.now.Store(int64(now)) }

// Advance moves the clock by a duration, back if it is negative, and returns the new time.
func (c *Clock) Advance(by rule.Micros) rule.Micros { return rule.Micros(c.now.Add(int64(by))) }
