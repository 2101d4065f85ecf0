package rule

import "slices"

// heldModel keeps what reservations hold beside what another model keeps of what was used.
type heldModel struct {
	model
	all   []modelHold
	moved bool // the last place moved the other model back
}

type modelHold struct {
	id            ID
	units         int64
	since, length Micros
}

func (m *heldModel) copy() model { return &heldModel{m.model.copy(), slices.Clone(m.all), false} }

func (m *heldModel) place(l *Limit, now Micros) (at Micros, moved bool) {
	at, moved = m.model.place(l, now)
	m.moved = moved
	for i := range m.all {
		if h := &m.all[i]; h.since > now+l.Window {
			h.since = at
			moved = moved || h.since+h.length > at
		}
	}
	return at, moved
}

func (m *heldModel) open(at Micros) (open []modelHold, units int64) {
	for _, h := range m.all {
		if h.since+h.length > at {
			open = append(open, h)
			units += h.units
		}
	}
	return open, units
}

func (m *heldModel) room(l *Limit, at Micros) int64 {
	_, units := m.open(at)
	return m.model.room(l, at) - units
}

// holds reports whether id holds units.
func (m *heldModel) holds(at Micros, id ID) bool {
	open, _ := m.open(at)
	return id != 0 && slices.ContainsFunc(open, func(h modelHold) bool { return h.id == id })
}

// end ends the hold of id and returns its units.
func (m *heldModel) end(at Micros, id ID) (units int64) {
	m.all, _ = m.open(at)
	m.all = slices.DeleteFunc(m.all, func(h modelHold) bool {
		if found := id != 0 && h.id == id; found {
			units = h.units
			return true
		}
		return false
	})
	return units
}

// hold holds units for id, or renews those that it holds.
func (m *heldModel) hold(l *Limit, at Micros, n int64, id ID) int64 {
	if m.holds(at, id) {
		n = m.end(at, id)
	}
	m.all = append(m.all, modelHold{id, n, at, l.Hold})
	return n
}

func (m *heldModel) written(l *Limit, at Micros) {
	m.model.written(l, at)
	m.all, _ = m.open(at)
}

// writtenHolds is written for a decision that changes only what is held, or moves back what is ahead.
func (m *heldModel) writtenHolds(l *Limit, at Micros) {
	if m.moved {
		m.model.written(l, at)
	}
	m.all, _ = m.open(at)
}
