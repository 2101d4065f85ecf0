package redisstore

import (
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// calendar knows where the periods of limits by the calendar start. The script is sent the starts of three periods, because
// only Go knows the time zones: the one that now lies in, the one before and the one after, and the end of that. The clocks of
// this process and of the server need not agree, as long as the server's lies within.
type calendar struct {
	periods sync.Map     // by the IDs of limits, *periods
	known   atomic.Int64 // how many are remembered
	ahead   atomic.Int64 // by how many microseconds the server's clock is ahead, if it was seen to be outside
}

// periods are the starts of three periods in a row, and of the next.
type periods [4]rule.Micros

// starts returns the periods around now, a moment of this process's clock.
func (c *calendar) starts(limit *store.Limit, now rule.Micros) periods {
	now = max(0, now+rule.Micros(c.ahead.Load()))
	if known, ok := c.periods.Load(limit.ID()); ok {
		if p := known.(*periods); p[1] <= now && now < p[2] {
			return *p
		}
	}
	p := periodsAround(limit.Rule(), now)
	if _, known := c.periods.Load(limit.ID()); known || c.known.Add(1) <= maxPrefixes {
		c.periods.Store(limit.ID(), &p)
	}
	return p
}

func periodsAround(l *rule.Limit, now rule.Micros) (p periods) {
	p[1], p[2] = l.Bounds(now)
	p[0], _ = l.Bounds(p[1] - 1)
	_, p[3] = l.Bounds(p[2])
	return p
}
