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
	window  Micros // 0 for a calendar limit
	parts   int64
	part    Micros
	overlap rule.Overlap
	burst   int64
}

// Resolve fills in the defaults of a limit.
func Resolve(limit slidegate.Limit) *Limit {
	l := &Limit{Limit: limit, window: limit.Window.Microseconds(), parts: max(1, int64(limit.Segments)), overlap: limit.Overlap}
	switch {
	case isDefault(limit):
		l.parts, l.overlap = defaultParts(l.window), slidegate.OverlapWhole
	case l.Algorithm != rule.DefaultAlgorithm:
	case l.Calendar != 0:
		l.Algorithm = slidegate.FixedWindow
	default:
		l.Algorithm = slidegate.SlidingWindow
	}
	if l.burst = l.Burst; l.burst == 0 {
		l.burst = l.Quota
	}
	l.part = l.window / l.parts
	return l
}

// Part is the length of a part of the window, or the window.
func (l *Limit) Part() Micros { return l.part }

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
