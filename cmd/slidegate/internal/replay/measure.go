package replay

import "github.com/slidegate/slidegate/rule"

// measure records how accurate a limit is.
type measure struct {
	admitted []tally // the exact admissions in the window before the last admission
	census   *census
	before   liveState // the state of the key before the decision

	highest       int64 // the most units admitted to a key in a window
	highestKey    uint32
	highestAt     rule.Micros
	refused       int64
	wrongAdmitted int64
	wrongRefused  int64
}

// begin must be called before a request is decided, and end after it.
func (m *measure) begin(l *lane, q *request) {
	l.reach(q.key)
	m.before = l.liveState(q.key)
}

// end counts a request. The argument fits reports whether the exact log admits it, admits whether this limit does, and
// admitted whether all limits together did.
func (m *measure) end(l *lane, q *request, fits, admits, admitted bool) {
	isPeek := q.cost == 0 // it is not compared, but can move back a state that a clock jump left in the future
	switch {
	case isPeek:
	case admits && !fits:
		m.wrongAdmitted++
	case !admits && fits:
		m.wrongRefused++
	}
	if !admits {
		m.refused++
	}
	if admitted && !isPeek {
		m.admitted = reach(m.admitted, q.key)
		t := &m.admitted[q.key]
		t.forgetFor(q.at, &l.limit)
		t.add(q.at, q.cost)
		if t.sum > m.highest {
			m.highest, m.highestKey, m.highestAt = t.sum, q.key, t.newest
		}
	}
	m.census.change(q.at, m.before, l.liveState(q.key))
}
