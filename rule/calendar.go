package rule

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Period is a calendar period. The zero value means none: the limit has a window of fixed length.
type Period uint8

// Calendar periods. A week begins on Monday.
const (
	Day Period = iota + 1
	Week
	Month
	Year
)

// longest is an upper bound of each period's length. The largest step back of a clock since 1970 is 7 hours
// (Antarctica/Vostok, 1994).
var longest = [...]Micros{0, 32 * 3600e6, (7*24 + 8) * 3600e6, (31*24 + 8) * 3600e6, (366*24 + 8) * 3600e6}

func (l *Limit) normalizeCalendar() error {
	switch {
	case l.Calendar > Year:
		return fmt.Errorf("calendar: unknown value %d", l.Calendar)
	case l.Calendar == 0 && l.Zone != "":
		return fmt.Errorf("zone: applies to windows of a day, week, month or year; write, for example, 100/day zone=%s", l.Zone)
	case l.Calendar == 0:
		return nil
	case l.Algorithm != FixedWindow:
		return fmt.Errorf("algorithm: calendar windows are fixed-window, not %s; leave the algorithm out", l.Algorithm)
	case l.Anchor != AnchorClock:
		return fmt.Errorf("anchor: %s does not apply to calendar windows; leave it out", l.Anchor)
	case l.Window != 0 && l.Window != longest[l.Calendar]:
		return fmt.Errorf("window: calendar windows have no fixed length; leave it out")
	}
	l.Window = longest[l.Calendar]
	if l.Zone == "" {
		l.Zone = "UTC"
	}
	_, err := calendarOf(l.Zone)
	return err
}

// calendar caches the period boundaries of one time zone.
type calendar struct {
	location *time.Location
	rows     [Year + 1]atomic.Pointer[row] // by Period: the boundaries that were used last
}

// row holds consecutive starts of periods. It holds more than the current period because a decision also needs its
// neighbors: the period in which a state was written, and the ones that are sent to ports.
type row [8]Micros

var (
	calendars    atomic.Pointer[map[string]*calendar] // by zone; copied on write, so that readers need no lock
	addCalendars sync.Mutex
)

// calendarOf returns the calendar of a time zone. Zones are few, so calendars are never dropped.
func calendarOf(zone string) (*calendar, error) {
	if known := calendars.Load(); known != nil {
		if c := (*known)[zone]; c != nil {
			return c, nil
		}
	}
	if zone == "Local" {
		return nil, fmt.Errorf("zone: Local differs between machines; name a zone such as Europe/Berlin")
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		if _, err := time.LoadLocation("Europe/Berlin"); err != nil {
			return nil, fmt.Errorf(`zone: %q is unknown, because this machine has no time zone data; import _ "time/tzdata" into the program`, zone)
		}
		return nil, fmt.Errorf("zone: %q is not a time zone such as Europe/Berlin or UTC", zone)
	}
	addCalendars.Lock()
	defer addCalendars.Unlock()
	all := map[string]*calendar{}
	if known := calendars.Load(); known != nil {
		if c := (*known)[zone]; c != nil {
			return c, nil
		}
		maps.Copy(all, *known)
	}
	all[zone] = &calendar{location: location}
	calendars.Store(&all)
	return all[zone], nil
}

// Bounds returns the start of the calendar period that contains now, and the start of the next one. Ports receive these
// bounds, because Redis has no time zones, and those of PostgreSQL are not those of the programs.
//
// A day starts when clocks in the zone first show its date: after midnight if clocks are set forward over midnight. If
// clocks are set back over midnight, the repeated hour belongs to the day that has begun. A date that a zone skipped has no
// period.
func (l *Limit) Bounds(now Micros) (start, end Micros) {
	c, err := calendarOf(l.Zone)
	if err != nil {
		panic(err) // unreachable: Normalize accepted the zone
	}
	r := c.rows[l.Calendar].Load()
	if r == nil || now < r[0] || now >= r[len(r)-1] {
		r = l.Calendar.rowAround(now, c.location)
		c.rows[l.Calendar].Store(r)
	}
	i := 1
	for now >= r[i] {
		i++
	}
	return r[i-1], r[i]
}

// rowAround returns consecutive starts of periods: the start for the date that clocks show at now, the two before it,
// and the ones that follow. If clocks were set back over midnight, now lies in the period that follows.
func (p Period) rowAround(now Micros, in *time.Location) *row {
	var r row
	r[2], r[3] = p.startsAt(now.Time().In(in))
	for i := 1; i >= 0; i-- {
		r[i], _ = p.startsAt((r[i+1] - 1).Time().In(in))
	}
	for i := 4; i < len(r); i++ {
		_, r[i] = p.startsAt(r[i-1].Time().In(in))
	}
	return &r
}

// startsAt returns the start of the period that contains t's date, and the start of the next one.
func (p Period) startsAt(t time.Time) (this, next Micros) {
	year, month, day := t.Date()
	in := t.Location()
	switch p {
	case Week:
		day -= (int(t.Weekday()) + 6) % 7
		return midnight(year, month, day, in), midnight(year, month, day+7, in)
	case Month:
		return midnight(year, month, 1, in), midnight(year, month+1, 1, in)
	case Year:
		return midnight(year, time.January, 1, in), midnight(year+1, time.January, 1, in)
	default:
		return midnight(year, month, day, in), midnight(year, month, day+1, in)
	}
}

// midnight returns the first instant of a day: the earliest at which clocks in the zone show that date or a later one.
func midnight(year int, month time.Month, day int, in *time.Location) Micros {
	utc := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	for t := utc.Add(-26 * time.Hour).In(in); ; { // no zone is 26 hours ahead of UTC
		from, until := t.ZoneBounds()
		if !until.IsZero() && !until.After(t) {
			// Beyond the zone's table, Go ends every year after 365 days, so on the last day of a leap year the end is
			// already past.
			until = t.Truncate(24 * time.Hour).Add(24 * time.Hour)
		}
		_, offset := t.Zone()
		at := utc.Add(-time.Duration(offset) * time.Second)
		if at.Before(from) { // clocks were set forward over midnight
			at = from
		}
		if until.IsZero() || at.Before(until) {
			return Micros(at.UnixMicro())
		}
		t = until.In(in)
	}
}

// lookCalendar is lookWindow for a calendar window. A state that starts later than the period does was written by a
// program with other zone data. It counts, and its start is kept, so that two such programs do not discard each other's
// counts in turn.
func (l *Limit) lookCalendar(s *State, now Micros, v *view) {
	v.start = s.Start
	start, _ := l.Bounds(now)
	switch ahead := s.Start - now; {
	case s.absentWindow() || s.Start < start:
		v.start, v.shift = start, 1
	case ahead > l.Window: // the clock had jumped ahead: keep the count, move the window back
		v.start, v.Moved = start, true
	case ahead > 0: // a time before the state's own counts as the state's own
		v.At = s.Start
	}
	v.Room = l.Quota - l.usedWindow(s, v)
}
