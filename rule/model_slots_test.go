package rule

import "slices"

// slotsModel keeps the IDs that hold slots of an in-flight limit, and since when, in the order in which they were renewed.
type slotsModel struct{ all []Slot }

func (m *slotsModel) copy() model { return &slotsModel{slices.Clone(m.all)} }

func (m *slotsModel) place(l *Limit, now Micros) (at Micros, moved bool) {
	if len(m.all) == 0 {
		return now, false
	}
	newest := m.all[len(m.all)-1].Renewed
	switch ahead := newest - now; {
	case ahead > l.Window:
		for i := range m.all {
			m.all[i].Renewed -= ahead
		}
		return now, true
	case ahead > 0:
		return newest, false
	}
	return now, false
}

// live returns the slots that were renewed less than a window before at.
func (m *slotsModel) live(l *Limit, at Micros) (live []Slot) {
	for _, slot := range m.all {
		if at-slot.Renewed < l.Window {
			live = append(live, slot)
		}
	}
	return live
}

func (m *slotsModel) held(l *Limit, at Micros, id ID) bool {
	return slices.ContainsFunc(m.live(l, at), func(s Slot) bool { return s.ID == id })
}

func (m *slotsModel) room(l *Limit, at Micros) int64 { return l.Quota - int64(len(m.live(l, at))) }

// charge makes id the most recently renewed one. If that takes too many slots, the first holder loses its slot.
func (m *slotsModel) charge(l *Limit, at Micros, _ int64, id ID) {
	live := m.live(l, at)
	before := int64(len(live))
	live = slices.DeleteFunc(live, func(s Slot) bool { return s.ID == id })
	live = append(live, Slot{id, at})
	if n := int64(len(live)); n > l.Quota && n > before {
		live = live[1:]
	}
	m.all = live
}

func (m *slotsModel) refuse(*Limit, Micros, int64) {}
func (m *slotsModel) written(l *Limit, at Micros)  { m.all = m.live(l, at) }

func (m *slotsModel) back(l *Limit, at Micros, n int64, moment Micros, id ID) int64 {
	live := m.live(l, at)
	before := len(live)
	if moment == Oldest {
		live = live[min(n, int64(before)):]
	} else {
		live = slices.DeleteFunc(live, func(s Slot) bool { return s.ID == id })
	}
	given := int64(before - len(live))
	if given > 0 {
		m.all = live
	}
	return given
}
