package redisstore

import (
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// calendar computes where the periods of calendar limits start. The script receives the starts of three periods,
// because only Go knows the time zones: the current one, the previous one and the next one, and the end of the last.
// The clocks of this process and of the server need not agree, as long as the server's time is within.
type calendar struct {
	periods sync.Map     // of *periods, by the limit's ID
	known   atomic.Int64 // number of remembered periods
	ahead   atomic.Int64 // how many microseconds the server's clock is ahead, if it was seen to be outside
}

// periods are the starts of three consecutive periods, and of the one after them.
type periods [4]rule.Micros

// starts returns the periods around now, a time by this process's clock.
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
