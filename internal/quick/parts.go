package quick

import (
	"math"
	"math/bits"

	"github.com/slidegate/slidegate/rule"
)

// Parts holds the steps of the rule for sliding windows of several segments, for a store that keeps the counts in its own
// form. The zero value is not usable; call NewParts.
type Parts struct {
	part     rule.Micros
	parts    uint // how many counts a state has
	overPart divisor
}

// NewParts returns the steps for windows of l's shape.
func NewParts(l *rule.Limit) Parts {
	part := l.Window / rule.Micros(l.Segments)
	return Parts{part: part, parts: uint(l.Parts()), overPart: newDivisor(part)}
}

// Part returns the length of a part.
func (q *Parts) Part() rule.Micros { return q.part }

// Roll moves a state whose current part starts at start to now. It returns where the current part then starts, the time
// that decides, and by how many parts the counts must be shifted. It is not ok if the state is ahead by more than a window.
func (q *Parts) Roll(l *rule.Limit, start, now rule.Micros) (newStart, at rule.Micros, shift uint, ok bool) {
	since := now - start
	if since < 0 {
		return start, start, 0, since >= -l.Window
	}
	if passed := q.overPart.over(uint64(since)); passed < uint64(q.parts) {
		return start + rule.Micros(passed)*q.part, now, uint(passed), true
	}
	if l.Anchor == rule.AnchorClock {
		return rule.Micros(q.overPart.over(uint64(now))) * q.part, now, q.parts, true
	}
	return now, now, q.parts, true
}

// Room returns the largest cost that is admitted. Whole is the sum of the parts that count in full, oldest is the count of
// the oldest part, and covered is how much of that part still lies in the window.
func (q *Parts) Room(l *rule.Limit, whole, oldest int64, covered rule.Micros) int64 {
	room := l.Quota - whole
	if oldest == 0 || covered == q.part || l.Overlap == rule.OverlapWhole {
		return room - oldest
	}
	switch hi, lo := bits.Mul64(uint64(oldest), uint64(covered)); {
	case hi > 0 || lo > math.MaxInt64:
		return room - weigh(l, oldest, covered, q.part)
	case l.Overlap == rule.OverlapUp:
		return room - int64(q.overPart.overUp(lo))
	default:
		return room - int64(q.overPart.over(lo))
	}
}

// FreeAt returns the first time at which count weighs no more than room while its part is the oldest one, which it is from
// start on. It is not ok if that is never the case; then the part after it becomes the oldest.
func (q *Parts) FreeAt(l *rule.Limit, start rule.Micros, count, room int64) (at rule.Micros, ok bool) {
	switch {
	case room < 0:
		return 0, false
	case count <= room:
		return start, true
	}
	if hi, lo := bits.Mul64(uint64(room), uint64(q.part)); hi == 0 && l.Overlap == rule.OverlapUp { // maxCovered, inlined
		covered := rule.Micros(lo / uint64(count))
		return start + q.part - covered, covered > 0
	}
	covered := maxCovered(l, count, room, q.part)
	return start + q.part - covered, covered > 0
}
