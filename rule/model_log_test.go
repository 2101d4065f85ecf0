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

// live returns the charges that count at a given time: the newest ones, at most quota units.
func (m *logModel) live(l *Limit, at Micros) (live []charged, units int64) {
	for _, c := range slices.Backward(m.all) {
		if n := min(c.units, l.Quota-units); n > 0 && c.at > at-l.Window {
			live = append(live, charged{c.at, n})
			units += n
		}
	}
	slices.Reverse(live)
	return live, units
}

func (m *logModel) room(l *Limit, at Micros) int64 {
	_, units := m.live(l, at)
	return l.Quota - units
}

func (m *logModel) charge(_ *Limit, at Micros, n int64, _ ID) { m.all = append(m.all, charged{at, n}) }
func (m *logModel) deny(l *Limit, at Micros, n int64)         { m.charge(l, at, n, 0) }
func (m *logModel) written(l *Limit, at Micros)               { m.all, _ = m.live(l, at) }

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
