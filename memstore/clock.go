package memstore

import (
	"time"

	"github.com/slidegate/slidegate/rule"
)

// clock is the store's clock: the monotonic clock, set by the wall clock when it is created, or a given one.
type clock struct {
	now      func() rule.Micros // nil means the monotonic clock
	wallBase rule.Micros
	base     time.Time
}

func newClock(now func() rule.Micros) clock {
	base := time.Now()
	return clock{now: now, wallBase: rule.Micros(base.UnixMicro()), base: base}
}

// read reads the clock. It uses only the monotonic clock, which costs half as much as the wall clock and cannot be set
// back.
func (c *clock) read() rule.Micros {
	if c.now != nil {
		return c.readGiven()
	}
	return c.wallBase + rule.Micros(time.Since(c.base).Microseconds())
}

func (c *clock) readGiven() rule.Micros { return min(max(0, c.now()), rule.MaxNow) }
