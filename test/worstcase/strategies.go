package worstcase

import "github.com/slidegate/slidegate/rule"

// strategies returns schedules that are known to do well against one algorithm or another, as starting points. They are not
// tuned to the last microsecond: that is left to the search.
func strategies(part, window rule.Micros, quota int64) []Schedule {
	span := 4 * window
	edge := part - 1 // the last microsecond of the first part
	bit := max(1, quota/10)
	later := edge + window - 1 // the last microsecond that shares a window with it
	all := []Schedule{
		// Everything at once, and again after a window: what an exact limit admits.
		{{At: 0, Cost: quota}, {At: window, Cost: quota}},
		// Everything at the end of a part, and again at the end of the window that begins there: by then a weighted counter
		// has forgotten nearly all of it.
		{{At: edge, Cost: quota}, {At: later, Cost: quota}},
		// The same, but taking what becomes free in between, bit by bit.
		{{At: edge, Cost: quota}, {At: edge + 1, Until: later, Cost: bit}, {At: later, Cost: quota}},
		// Everything at the end of a part, and more as soon as any is free: the weakness of a fixed window.
		{{At: edge, Cost: quota}, {At: edge + 1, Until: span, Cost: 1}},
		// If windows start with the first request: one unit starts it, and the rest is as above, in the same part or when
		// the window has moved on so far that this unit is about to leave it.
		{{At: 0, Cost: 1}, {At: edge, Cost: quota}, {At: edge + 1, Until: span, Cost: 1}},
		{{At: 0, Cost: 1}, {At: edge, Cost: quota}, {At: later, Cost: quota}},
		{{At: 0, Cost: 1}, {At: edge + window, Cost: quota}, {At: edge + window + 1, Until: span, Cost: 1}},
		{{At: 0, Cost: 1}, {At: edge + window, Cost: quota}, {At: later + window, Cost: quota}},
		// A full bucket, and then everything that is refilled.
		{{At: 0, Cost: quota}, {At: 1, Until: window - 1, Cost: bit}, {At: window - 1, Cost: quota}},
		{{At: 0, Until: window - window/10, Cost: bit}, {At: window - window/10 + 1, Until: span, Cost: 1}},
		// Everything that is ever free, bit by bit.
		{{At: 0, Until: span, Cost: bit}},
	}
	var ends Schedule // everything free at the end of each part, for a window or as long as a schedule may be
	for at := edge; at <= later && len(ends) < maxSteps; at += part {
		ends = append(ends, Step{At: at, Cost: max(1, quota/2)})
	}
	return append(all, ends)
}
