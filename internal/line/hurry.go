package line

import (
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
)

// rarely is how many questions come in time for each that comes too early.
const rarely = 9

// hurry is how much earlier than its moment a question is sent, so that it arrives then although it travels, and timers and goroutines are late.
type hurry struct {
	trip  time.Duration // how long a question takes there and back, at least
	by    time.Duration
	again bool // the last one came too early
}

// learn remembers how long a question took. It follows shorter times at once.
func (h *hurry) learn(took time.Duration) {
	if h.trip == 0 {
		h.trip, h.by = took, took/2
	}
	h.trip = min(took, h.trip+(took-h.trip)/8)
}

// adjust makes the next question come later, or a little earlier, so that one in ten comes too early.
func (h *hurry) adjust(tooEarly bool) {
	if step := max(h.trip, h.by) / 8; tooEarly {
		h.by, h.again = max(0, h.by-step), true
	} else {
		h.by = min(time.Second, h.by+step/rarely)
	}
}

// next returns how much earlier than its moment the next question is sent. After one that came too early, it is less than it takes to arrive:
// this one does not come too early.
func (h *hurry) next() time.Duration {
	if h.again {
		h.again = false
		return min(h.by, h.trip/2)
	}
	return h.by
}

// cameTooEarly reports whether a refused question came before its moment, which is still the same, and remembers that.
func (q *queue) cameTooEarly(answers []rule.Answer, now, until time.Time) bool {
	index, _ := answering.Deciding(answers)
	moment := now.Add(answers[index].RetryAfter.Duration())
	tooEarly := !moment.After(until.Add(max(q.hurry.trip, q.yield())))
	q.hurry.adjust(tooEarly)
	return tooEarly
}
