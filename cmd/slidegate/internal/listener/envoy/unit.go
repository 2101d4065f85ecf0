package envoy

import (
	"math"
	"slices"
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
	period rule.Period // that it becomes with a zone; 0 if it cannot have one
}

// units are the units of time that a limit can have, by their number in the protocol. All windows start at multiples of
// their length since the Unix epoch, as in the original.
var units = []timeUnit{
	{"second", rls.RateLimitResponse_RateLimit_SECOND, time.Second, 0},
	{"minute", rls.RateLimitResponse_RateLimit_MINUTE, time.Minute, 0},
	{"hour", rls.RateLimitResponse_RateLimit_HOUR, time.Hour, 0},
	{"day", rls.RateLimitResponse_RateLimit_DAY, day, rule.Day},
	{"week", rls.RateLimitResponse_RateLimit_WEEK, 7 * day, rule.Week},
	{"month", rls.RateLimitResponse_RateLimit_MONTH, 30 * day, rule.Month},
	{"year", rls.RateLimitResponse_RateLimit_YEAR, 365 * day, rule.Year},
}

var unitNames = func() (names []string) {
	for _, u := range units {
		names = append(names, u.name)
	}
	return names
}()

// unitWith returns the first unit that is; the zero value if there is none.
func unitWith(is func(timeUnit) bool) (found timeUnit) {
	if i := slices.IndexFunc(units, is); i >= 0 {
		found = units[i]
	}
	return found
}

// lengthOf returns the length of a unit; 0 if it is unknown.
func lengthOf(unit rls.RateLimitResponse_RateLimit_Unit) time.Duration {
	return unitWith(func(u timeUnit) bool { return u.unit == unit }).length
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
