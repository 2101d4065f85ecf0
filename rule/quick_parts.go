package rule

import (
	"math"
	"math/bits"
)

// QuickParts holds the steps of the rule in window.go for sliding windows of several segments, for a fast store that keeps
// the counts in its own format. They take numbers instead of a State; a test keeps the two equal. The zero value is not
// usable; call NewQuickParts.
type QuickParts struct {
	part     Micros
	parts    uint // how many counts a state has
	overPart divisor
}

// NewQuickParts returns the steps for windows of l's shape.
func NewQuickParts(l *Limit) QuickParts {
	return QuickParts{part: l.part(), parts: uint(l.Parts()), overPart: newDivisor(l.part())}
}

// Part returns the length of a part.
func (q *QuickParts) Part() Micros { return q.part }

// Roll moves a state whose current part starts at start to now. It returns where the current part then starts, the time
// that decides, and by how many parts the counts must be shifted. It is not ok if the state is ahead by more than a window.
func (q *QuickParts) Roll(l *Limit, start, now Micros) (newStart, at Micros, shift uint, ok bool) {
	since := now - start
	if since < 0 {
		return start, start, 0, since >= -l.Window
	}
	if passed := q.overPart.over(uint64(since)); passed < uint64(q.parts) {
		return start + Micros(passed)*q.part, now, uint(passed), true
	}
	if l.Anchor == AnchorClock {
		return Micros(q.overPart.over(uint64(now))) * q.part, now, q.parts, true
	}
	return now, now, q.parts, true
}

// Room returns the largest cost that is admitted. Whole is the sum of the parts that count in full, oldest is the count of
// the oldest part, and covered is how much of that part still lies in the window.
func (q *QuickParts) Room(l *Limit, whole, oldest int64, covered Micros) int64 {
	room := l.Quota - whole
	if oldest == 0 || covered == q.part || l.Overlap == OverlapWhole {
		return room - oldest
	}
	switch hi, lo := bits.Mul64(uint64(oldest), uint64(covered)); {
	case hi > 0 || lo > math.MaxInt64:
		return room - l.weigh(oldest, covered, q.part)
	case l.Overlap == OverlapUp:
		return room - int64(q.overPart.overUp(lo))
	default:
		return room - int64(q.overPart.over(lo))
	}
}

// FreeAt returns the first time at which count weighs no more than room while its part is the oldest one, which it is from
// start on. It is not ok if that is never the case; then the part after it becomes the oldest.
func (q *QuickParts) FreeAt(l *Limit, start Micros, count, room int64) (at Micros, ok bool) {
	switch {
	case room < 0:
		return 0, false
	case count <= room:
		return start, true
	}
	if hi, lo := bits.Mul64(uint64(room), uint64(q.part)); hi == 0 && l.Overlap == OverlapUp { // maxCovered, inlined
		covered := Micros(lo / uint64(count))
		return start + q.part - covered, covered > 0
	}
	covered := l.maxCovered(count, room, q.part)
	return start + q.part - covered, covered > 0
}
