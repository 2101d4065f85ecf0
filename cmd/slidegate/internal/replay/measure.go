package replay

import "github.com/slidegate/slidegate/rule"

// measure finds out how well a limit did.
type measure struct {
	admitted []tally // exactly what was admitted in the window before the last admission
	chunks   chunks
	census   *census
	before   stay // of the key being decided

	highest       int64 // the most units admitted to a key in a window
	highestKey    uint32
	highestAt     rule.Micros
	denied        int64
	wrongAdmitted int64
	wrongDenied   int64
}

// warmUp reads from the counts of a key, and warmUpMore from what they point to.
func (m *measure) warmUp(key uint32) int64 {
	if int(key) < len(m.admitted) {
		return m.admitted[key].sum
	}
	return 0
}

func (m *measure) warmUpMore(key uint32) int64 {
	if int(key) < len(m.admitted) && m.admitted[key].head != 0 {
		return int64(m.chunks.at(m.admitted[key].head).used)
	}
	return 0
}

// begin is to be called before a request is decided, and end after it.
func (m *measure) begin(l *lane, q *request) {
	l.reach(q.key)
	m.before = l.stay(q.key)
}

// end counts a request that this limit admits, or not, and that all limits together admitted, or not.
func (m *measure) end(l *lane, q *request, fits, admits, admitted bool) {
	looks := q.cost == 0 // even that moves a state back which a clock that jumped has left behind
	switch {
	case looks:
	case admits && !fits:
		m.wrongAdmitted++
	case !admits && fits:
		m.wrongDenied++
	}
	if !admits {
		m.denied++
	}
	if admitted && !looks {
		m.admitted = reach(m.admitted, q.key)
		t := &m.admitted[q.key]
		t.forgetFor(&m.chunks, q.at, &l.limit)
		t.add(&m.chunks, q.at, q.cost)
		if t.sum > m.highest {
			m.highest, m.highestKey, m.highestAt = t.sum, q.key, t.newest
		}
	}
	m.census.change(q.at, m.before, l.stay(q.key))
}
