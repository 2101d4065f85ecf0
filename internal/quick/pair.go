package quick

import (
	"math"
	"math/bits"

	"github.com/slidegate/slidegate/rule"
)

// IsPair reports whether TakePair supports l: a window of one part with a fixed length.
func IsPair(l *rule.Limit) bool {
	return (l.Algorithm == rule.SlidingWindow && l.Segments == 1 || l.Algorithm == rule.FixedWindow) && l.Calendar == 0
}

// TakePair decides a take of cost at now over a sliding window of one segment whose current part starts at start, or over a
// fixed window with anchor clock, which has no previous count. The new state is shift windows later, 0 or 1, and must be
// stored if the request is admitted.
//
// It leaves uncommon requests to the rule: a state that belongs to neither this window nor the one before, a refusal that
// counts, a cost above the quota. After is when the same cost fits after a refusal, or when a unit is free after an
// admission that took the last one. It takes and returns plain numbers because a struct of more than four fields would go
// through memory here.
func TakePair(l *rule.Limit, start rule.Micros, current, previous int64, now rule.Micros, cost int64) (
	outcome Outcome, shift uint64, newCurrent, newPrevious, remaining int64, after, resetAfter rule.Micros,
) {
	window := l.Window
	since := now - start
	if since >= window {
		since -= window
		start += window
		shift, previous, current = 1, current, 0
		if l.Algorithm == rule.FixedWindow {
			previous = 0
		}
	}
	if uint64(since) >= uint64(window) {
		return Undecided, 0, 0, 0, 0, 0, 0
	}
	room := l.Quota - current
	if previous > 0 {
		if hi, lo := bits.Mul64(uint64(previous), uint64(window-since)); hi == 0 && lo <= math.MaxInt64 && l.Overlap == rule.OverlapUp {
			room -= int64((lo + uint64(window) - 1) / uint64(window)) // weigh, with one division and no call
		} else {
			room -= weigh(l, previous, window-since, window)
		}
	}
	switch {
	case cost <= room:
		current += cost
		room -= cost
		outcome = Admitted
		if room == 0 {
			after = waitPair(l, start, current, previous, 1) - now
		}
	case cost > l.Quota || l.CountRefused:
		return Undecided, 0, 0, 0, 0, 0, 0
	default:
		outcome = Refused
		target := l.Quota - cost
		if hi, lo := bits.Mul64(uint64(target), uint64(window)); hi == 0 && current > target && l.Overlap == rule.OverlapUp && l.Algorithm == rule.SlidingWindow {
			after = start + 2*window - rule.Micros(lo/uint64(current)) - now // waitPair and maxCovered, inlined
		} else {
			after = waitPair(l, start, current, previous, cost) - now
		}
	}
	if room < l.Quota {
		if resetAfter = start + 2*window - now; current == 0 || l.Overlap == rule.OverlapDown || l.Algorithm == rule.FixedWindow {
			resetAfter = waitPair(l, start, current, previous, l.Quota) - now
		}
	}
	return outcome, shift, current, previous, max(0, room), after, resetAfter
}

// waitPair returns the first time at which cost, which does not fit now, fits.
func waitPair(l *rule.Limit, start rule.Micros, current, previous, cost int64) rule.Micros {
	end := start + l.Window
	if l.Algorithm == rule.FixedWindow {
		return end
	}
	target := l.Quota - cost
	if room := target - current; room >= 0 {
		return end - maxCovered(l, previous, room, l.Window)
	}
	return end + l.Window - maxCovered(l, current, target, l.Window)
}
