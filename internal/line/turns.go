package line

import "time"

// A request with larger limits is of a higher class, and goes first. So that the lower ones are never starved:
//
//   - When several classes wait, every fourth turn goes to a lower class, if its part of the limits has room.
//   - Once in four windows, who has waited for that long goes next, and the others wait for it.
const (
	turnsOfHighest = 3
	patience       = 4 // windows
)

// turns counts who had its turn.
type turns struct {
	highest int       // in a row of the highest class, while others wait
	trial   bool      // it is the turn of a lower class, unless its part has no room
	aged    time.Time // when somebody who had waited for long was first
}

// next returns who is first in line.
func (q *queue) next() *waiter {
	q.turns.trial = false
	if len(q.classes) < 2 {
		q.turns.highest = 0
		if len(q.classes) == 0 {
			return nil
		}
		return q.classes[0].head
	}
	oldest := q.classes[1].head
	for _, c := range q.classes[2:] {
		if c.head.since.Before(oldest.since) {
			oldest = c.head
		}
	}
	now, long := time.Now(), patience*q.window.Duration()
	switch {
	case now.Sub(oldest.since) >= long && now.Sub(q.turns.aged) >= long:
		return oldest
	case q.turns.highest >= turnsOfHighest:
		q.turns.trial = true
		return oldest
	}
	return q.classes[0].head
}

// served counts a turn.
func (t *turns) served(q *queue, w *waiter, now time.Time) {
	if w.class != q.classes[0] {
		t.highest = 0
		if now.Sub(w.since) >= patience*q.window.Duration() {
			t.aged = now
		}
		return
	}
	t.highest++
}

// refused reports whether a refusal only means that a lower class has no room in its part.
func (t *turns) refused() bool {
	if !t.trial {
		return false
	}
	t.highest, t.trial = 0, false
	return true
}
