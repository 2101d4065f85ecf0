package storetest

import (
	"runtime"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
)

// Clock is a clock that stands still until it is told to move. It is safe for concurrent use. The zero value stands at
// the Unix epoch.
type Clock struct {
	now  atomic.Int64
	tick atomic.Int64 // how far every look moves it on; if at all, looking also takes long
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
	for range now * 7 % 17 { // some longer than others: whoever looks before it is their turn is overtaken now
		runtime.Gosched()
	}
	return rule.Micros(now)
}

// Set moves the clock to a moment, which may be an earlier one.
func (c *Clock) Set(now rule.Micros) { c.now.Store(int64(now)) }

// Advance moves the clock by a length of time, back if it is negative, and returns the new time.
func (c *Clock) Advance(by rule.Micros) rule.Micros { return rule.Micros(c.now.Add(int64(by))) }
