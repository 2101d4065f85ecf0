package rule

// defaultModel keeps the charges of a limit without a named algorithm as those of a log or, from the first charge that needs it on, as
// those of a sliding window in parts. It is a log again once nothing counts.
type defaultModel struct {
	log   logModel
	parts windowModel
	is    bool // in parts
	gone  bool // nothing counts in them any more; set by place
}

func (m *defaultModel) copy() model {
	return &defaultModel{*m.log.copy().(*logModel), *m.parts.copy().(*windowModel), m.is, m.gone}
}

func (m *defaultModel) place(l *Limit, now Micros) (at Micros, moved bool) {
	if !m.is {
		return m.log.place(l, now)
	}
	placed := *m.parts.copy().(*windowModel)
	at, moved = placed.place(l, now)
	if m.gone = placed.room(l, at) == l.Quota; m.gone {
		return now, false // as if never seen
	}
	m.parts = placed
	return at, moved
}

func (m *defaultModel) room(l *Limit, at Micros) int64 {
	switch {
	case m.is && m.gone:
		return l.Quota
	case m.is:
		return m.parts.room(l, at)
	}
	return m.log.room(l, at)
}

func (m *defaultModel) charge(l *Limit, at Micros, n int64, id ID) {
	if m.is && m.gone {
		*m = defaultModel{}
	}
	if m.is {
		m.parts.charge(l, at, n, id)
		return
	}
	live, units := m.log.live(l, at)
	if l.Quota > 100 || l.Lease || units+n > 100 {
		*m = defaultModel{is: true, parts: windowModel{live}}
		m.parts.charge(l, at, n, id)
		return
	}
	m.log.all = append(live, charged{at, n})
}

func (m *defaultModel) refuse(l *Limit, at Micros, n int64) { m.charge(l, at, n, 0) }

func (m *defaultModel) back(l *Limit, at Micros, n int64, moment Micros, id ID) int64 {
	switch {
	case !m.is:
		return m.log.back(l, at, n, moment, id)
	case m.gone || moment != Oldest && moment <= at-l.Window:
		return 0
	}
	return m.parts.back(l, at, n, moment, id)
}

func (m *defaultModel) written(l *Limit, at Micros) {
	if !m.is {
		m.log.written(l, at)
	}
}
