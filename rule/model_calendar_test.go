package rule

import "time"

// calendarModel keeps where the last charged period starts, and what was charged in it.
type calendarModel struct {
	seen  bool
	start Micros
	units int64
}

func (m *calendarModel) copy() model { c := *m; return &c }

func (m *calendarModel) place(l *Limit, now Micros) (at Micros, moved bool) {
	switch ahead := m.start - now; {
	case !m.seen:
	case ahead > l.Window:
		m.start = periodStart(l, now)
		return now, true
	case ahead > 0:
		return m.start, false
	}
	return now, false
}

// current reports whether the units were charged in the period that contains at, or in a later one.
func (m *calendarModel) current(l *Limit, at Micros) bool {
	return m.seen && m.start >= periodStart(l, at)
}

func (m *calendarModel) room(l *Limit, at Micros) int64 {
	if !m.current(l, at) {
		return l.Quota
	}
	return l.Quota - m.units
}

func (m *calendarModel) charge(l *Limit, at Micros, n int64, _ ID) {
	if !m.current(l, at) {
		*m = calendarModel{seen: true, start: periodStart(l, at)}
	}
	m.units = min(m.units+n, MaxQuota)
}

func (m *calendarModel) refuse(l *Limit, at Micros, n int64) { m.charge(l, at, n, 0) }

func (m *calendarModel) back(l *Limit, at Micros, n int64, moment Micros, _ ID) int64 {
	if !m.current(l, at) || moment != Oldest && moment < m.start {
		return 0
	}
	given := min(n, m.units)
	m.units -= given
	return given
}

func (m *calendarModel) written(*Limit, Micros) {}

// periodStart returns the start of the period that contains at: the first time at which clocks in the zone have shown a
// date of that period or a later one. It searches for it, using only what the clocks show.
func periodStart(l *Limit, at Micros) Micros {
	in, err := time.LoadLocation(l.Zone)
	if err != nil {
		panic(err)
	}
	period := latestPeriod(l.Calendar, in, at)
	before, start := at-(366*24+48)*3600*second, at // the period starts after the first, and not after the second
	for start-before > 1 {
		if middle := before + (start-before)/2; latestPeriod(l.Calendar, in, middle) >= period {
			start = middle
		} else {
			before = middle
		}
	}
	return start
}

// latestPeriod returns the number of the latest period of which clocks have shown a date until at: they may have been set
// back since.
func latestPeriod(p Period, in *time.Location, at Micros) int {
	t := at.Time().In(in)
	latest := periodOf(p, t)
	for {
		from, _ := t.ZoneBounds()
		if from.IsZero() || at.Time().Sub(from) > 48*time.Hour {
			return latest
		}
		t = from.Add(-time.Microsecond).In(in)
		latest = max(latest, periodOf(p, t))
	}
}

// periodOf numbers the periods by the date that clocks show.
func periodOf(p Period, t time.Time) int {
	year, month, day := t.Date()
	days := int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / 86_400) // no remainder: UTC days have 24h
	switch p {
	case Day:
		return days
	case Week:
		return floorDiv(days+3, 7) // the epoch was a Thursday
	case Month:
		return 12*year + int(month)
	default:
		return year
	}
}
