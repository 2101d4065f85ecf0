package rule

import "slices"

// logModel keeps the charges to a sliding log, in the order of their times.
type logModel struct{ all []charged }

func (m *logModel) copy() model { return &logModel{slices.Clone(m.all)} }

func (m *logModel) place(l *Limit, now Micros) (at Micros, moved bool) {
	if len(m.all) == 0 {
		return now, false
	}
	newest := m.all[len(m.all)-1].at
	switch ahead := newest - now; {
	case ahead > l.Window:
		for i := range m.all {
			m.all[i].at -= ahead
		}
		return now, true
	case ahead > 0:
		return newest, false
	}
	return now, false
}

// live returns the charges that count at a given time.
func (m *logModel) live(l *Limit, at Micros) (live []charged, units int64) {
	for _, c := range m.all {
		if c.units > 0 && c.at > at-l.Window {
			live = append(live, c)
			units += c.units
		}
	}
	return live, units
}

func (m *logModel) room(l *Limit, at Micros) int64 {
	_, units := m.live(l, at)
	return l.Quota - units
}

// charge adds n units, but no more than the quota. If there are then more than the quota, and more than before, the oldest
// ones make space for them.
func (m *logModel) charge(l *Limit, at Micros, n int64, _ ID) {
	live, before := m.live(l, at)
	n = min(n, l.Quota)
	m.all = append(live, charged{at, n})
	m.drop(before + n - max(before, l.Quota))
}

// drop removes the n oldest units.
func (m *logModel) drop(n int64) {
	for i := range m.all {
		if n <= 0 {
			return
		}
		taken := min(n, m.all[i].units)
		m.all[i].units -= taken
		n -= taken
	}
}

func (m *logModel) refuse(l *Limit, at Micros, n int64) { m.charge(l, at, n, 0) }
func (m *logModel) written(l *Limit, at Micros)         { m.all, _ = m.live(l, at) }

func (m *logModel) back(l *Limit, at Micros, n int64, moment Micros, _ ID) (given int64) {
	live, _ := m.live(l, at)
	for i, c := range live {
		if moment == Oldest || moment == c.at {
			taken := min(n-given, c.units)
			live[i].units -= taken
			given += taken
		}
	}
	if given > 0 {
		m.all = live
	}
	return given
}
