package rule

import (
	"math"
	"math/bits"
)

// Verdict is the outcome of TakePair.
type Verdict uint8

// Values of Verdict.
const (
	Undecided Verdict = iota // undecided: use TakeOne
	Refused
	Admitted
)

// TakePair decides the most common request of all: a take of cost at now over a sliding window of one segment whose current
// part starts at start, or over a fixed window with anchor clock, which has no previous count. It is the rule of window.go,
// optimized for speed; a test keeps the two equal. The new state is shift windows later, 0 or 1, and must be stored if the
// request is admitted.
//
// It leaves uncommon requests to TakeOne: a state that belongs to neither this window nor the one before, a denial that
// counts, a cost above the quota. After is when the same cost fits after a denial, or when a unit is free after an
// admission that took the last one. It takes and returns plain numbers because a struct of more than four fields would go
// through memory here.
func (l *Limit) TakePair(start Micros, current, previous int64, now Micros, cost int64) (
	verdict Verdict, shift uint64, newCurrent, newPrevious, remaining int64, after, resetAfter Micros,
) {
	window := l.Window
	since := now - start
	if since >= window {
		since -= window
		start += window
		shift, previous, current = 1, current, 0
		if l.Algorithm == FixedWindow {
			previous = 0
		}
	}
	if uint64(since) >= uint64(window) {
		return Undecided, 0, 0, 0, 0, 0, 0
	}
	room := l.Quota - current
	if previous > 0 {
		if hi, lo := bits.Mul64(uint64(previous), uint64(window-since)); hi == 0 && lo <= math.MaxInt64 && l.Overlap == OverlapUp {
			room -= int64((lo + uint64(window) - 1) / uint64(window)) // weigh, with one division and no call
		} else {
			room -= l.weigh(previous, window-since, window)
		}
	}
	switch {
	case cost <= room:
		current += cost
		room -= cost
		verdict = Admitted
		if room == 0 {
			after = l.waitPair(start, current, previous, 1) - now
		}
	case cost > l.Quota || l.CountDenied:
		return Undecided, 0, 0, 0, 0, 0, 0
	default:
		verdict = Refused
		target := l.Quota - cost
		if hi, lo := bits.Mul64(uint64(target), uint64(window)); hi == 0 && current > target && l.Overlap == OverlapUp && l.Algorithm == SlidingWindow {
			after = start + 2*window - Micros(lo/uint64(current)) - now // waitPair and maxCovered, inlined
		} else {
			after = l.waitPair(start, current, previous, cost) - now
		}
	}
	if room < l.Quota {
		if resetAfter = start + 2*window - now; current == 0 || l.Overlap == OverlapDown || l.Algorithm == FixedWindow {
			resetAfter = l.waitPair(start, current, previous, l.Quota) - now
		}
	}
	return verdict, shift, current, previous, max(0, room), after, resetAfter
}

// waitPair returns the first time at which cost, which does not fit now, fits.
func (l *Limit) waitPair(start Micros, current, previous, cost int64) Micros {
	end := start + l.Window
	if l.Algorithm == FixedWindow {
		return end
	}
	target := l.Quota - cost
	if room := target - current; room >= 0 {
		return end - l.maxCovered(previous, room, l.Window)
	}
	return end + l.Window - l.maxCovered(current, target, l.Window)
}
