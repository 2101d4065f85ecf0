package envoy

import (
	"math"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/slidegate/slidegate/rule"
)

const day = 24 * time.Hour

// timeUnit is a unit of time.
type timeUnit struct {
	name   string
	unit   rls.RateLimitResponse_RateLimit_Unit
	length time.Duration
}

// units are the units of time that a limit can have, by their number in the protocol. All windows start at multiples of
// their length since the Unix epoch, as in the original.
var units = []timeUnit{
	{"second", rls.RateLimitResponse_RateLimit_SECOND, time.Second},
	{"minute", rls.RateLimitResponse_RateLimit_MINUTE, time.Minute},
	{"hour", rls.RateLimitResponse_RateLimit_HOUR, time.Hour},
	{"day", rls.RateLimitResponse_RateLimit_DAY, day},
	{"week", rls.RateLimitResponse_RateLimit_WEEK, 7 * day},
	{"month", rls.RateLimitResponse_RateLimit_MONTH, 30 * day},
	{"year", rls.RateLimitResponse_RateLimit_YEAR, 365 * day},
}

// calendarUnits holds the calendar periods that units become with a zone, by the index of the unit.
var calendarUnits = map[int]rule.Period{
	3: rule.Day, 4: rule.Week, 5: rule.Month, 6: rule.Year,
}

var unitNames = func() (names []string) {
	for _, u := range units {
		names = append(names, u.name)
	}
	return names
}()

// lengthOf returns the length of a unit; 0 if it is unknown.
func lengthOf(unit rls.RateLimitResponse_RateLimit_Unit) time.Duration {
	for _, u := range units {
		if u.unit == unit {
			return u.length
		}
	}
	return 0
}

// times returns a multiple of a unit, or the longest Duration on overflow.
func times(length time.Duration, many int64) time.Duration {
	if length > 0 && many > int64(math.MaxInt64/length) {
		return math.MaxInt64
	}
	return length * time.Duration(many)
}

// unitOf expresses a window of whole seconds in the largest unit up to a day that divides it.
func unitOf(window time.Duration) (unit rls.RateLimitResponse_RateLimit_Unit, multiplier uint32) {
	for _, u := range []int{3, 2, 1, 0} {
		if window%units[u].length == 0 {
			return units[u].unit, uint32(window / units[u].length)
		}
	}
	panic("envoy: a window is not a whole number of seconds")
}
