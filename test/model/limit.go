package model

import (
	"fmt"
	"math/big"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// Micros is a time since the Unix epoch, or a duration, in microseconds.
type Micros = int64

// most is where counts saturate.
const most = 1<<53 - 1

// Limit is a limit with its defaults filled in.
type Limit struct {
	slidegate.Limit
	window Micros // 0 for a calendar limit
	parts  int64
	part   Micros
	burst  int64
}

// Resolve fills in the defaults of a limit. Base is the limit that it counts like, or nil.
func Resolve(limit slidegate.Limit, base *slidegate.Limit) *Limit {
	l := &Limit{Limit: limit, window: limit.Window.Microseconds(), parts: max(1, int64(limit.Segments))}
	if l.Algorithm == rule.DefaultAlgorithm {
		l.Algorithm = defaultAlgorithm(limit)
		plain := limit.Segments == 0 && limit.Overlap == 0 && limit.Anchor == 0 && limit.Calendar == 0
		if plain && base != nil && base.Window == limit.Window && base.Name == limit.Name && base.Algorithm != slidegate.InFlight {
			l.Algorithm = Resolve(*base, nil).Algorithm
			l.parts, l.Overlap, l.Anchor = max(1, int64(base.Segments)), base.Overlap, base.Anchor
			l.Segments = base.Segments
		}
	}
	if l.burst = l.Burst; l.burst == 0 {
		l.burst = l.Quota
	}
	l.part = l.window / l.parts
	return l
}

func defaultAlgorithm(l slidegate.Limit) rule.Algorithm {
	switch {
	case l.Calendar != 0:
		return slidegate.FixedWindow
	case l.Segments != 0 || l.Overlap != 0 || l.Anchor != 0 || l.Quota > 100:
		return slidegate.SlidingWindow
	default:
		return slidegate.SlidingLog
	}
}

// Slot reports whether the limit counts slots.
func (l *Limit) Slot() bool { return l.Algorithm == slidegate.InFlight }

// capacity is the largest cost that the limit ever admits.
func (l *Limit) capacity() int64 {
	if l.Algorithm == slidegate.TokenBucket {
		return l.burst
	}
	return l.Quota
}

// address is what the state of the limit belongs to.
func (l *Limit) address(group, key string) string {
	return fmt.Sprintf("%q %v %d %d %v %v %q %q %q", l.Name, l.Algorithm, l.window, l.parts, l.Anchor, l.Calendar, l.Zone, group, key)
}

// counts is how long a unit of the limit counts at most, and so how long a settlement is remembered for certain.
func (l *Limit) counts(now Micros) Micros {
	switch l.Algorithm {
	case slidegate.InFlight:
		return 0
	case slidegate.SlidingLog:
		return l.window + l.window/60
	case slidegate.TokenBucket:
		return max(l.window, ceilDiv(product(l.burst, l.window), l.Quota))
	case slidegate.FixedWindow:
		if l.Calendar != 0 {
			start, end := period(l.Calendar, l.Zone, now)
			return end - start
		}
		return l.window + l.window/60
	default:
		return l.window + l.part
	}
}

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// ceilDiv returns a / b, rounded up, for a that is not negative.
func ceilDiv(a *big.Int, b int64) int64 {
	up := new(big.Int).Add(a, big.NewInt(b-1))
	return up.Quo(up, big.NewInt(b)).Int64()
}

func duration(m Micros) time.Duration { return time.Duration(m) * time.Microsecond }
