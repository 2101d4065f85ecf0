package replay

import "github.com/slidegate/slidegate/rule"

// measure records how accurate a limit is.
type measure struct {
	admitted []tally // the exact admissions in the window before the last admission
	chunks   chunks
	census   *census
	before   liveState // the state of the key before the decision

	highest       int64 // the most units admitted to a key in a window
	highestKey    uint32
	highestAt     rule.Micros
	refused       int64
	wrongAdmitted int64
	wrongRefused  int64
}

// warmUp reads the counts of a key, and warmUpChunks the chunks they refer to, to bring them into the cache.
func (m *measure) warmUp(key uint32) int64 {
	if int(key) < len(m.admitted) {
		return m.admitted[key].sum
	}
	return 0
}

func (m *measure) warmUpChunks(key uint32) int64 {
	if int(key) < len(m.admitted) && m.admitted[key].head != 0 {
		return int64(m.chunks.at(m.admitted[key].head).used)
	}
	return 0
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
		t.forgetFor(&m.chunks, q.at, &l.limit)
		t.add(&m.chunks, q.at, q.cost)
		if t.sum > m.highest {
			m.highest, m.highestKey, m.highestAt = t.sum, q.key, t.newest
		}
	}
	m.census.change(q.at, m.before, l.liveState(q.key))
}
