package rule

import (
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // so that a limit works in containers that have no zone data of their own
)

// Period is a stretch of the calendar. The zero value is none: the limit has a window of fixed length.
type Period uint8

// The periods. A week begins on Monday.
const (
	NoPeriod Period = iota
	Day
	Week
	Month
	Year
)

// longest is an upper bound of each period's length, changes to and from daylight saving included. A zone that gives up its
// time for that of another continent may exceed it once, by hours; nothing depends on that being exact.
var longest = [...]Micros{0, 26 * 3600e6, (7*24 + 2) * 3600e6, (31*24 + 2) * 3600e6, (366*24 + 2) * 3600e6}

func (l *Limit) normalizeCalendar() error {
	switch {
	case l.Calendar > Year:
		return fmt.Errorf("calendar: unknown value %d", l.Calendar)
	case l.Calendar == NoPeriod && l.Zone != "":
		return fmt.Errorf("zone: applies to windows of a day, week, month or year; write such as 100/day zone=%s", l.Zone)
	case l.Calendar == NoPeriod:
		return nil
	case l.Algorithm != FixedWindow:
		return fmt.Errorf("algorithm: windows of a calendar are fixed-window, not %s; leave the algorithm out", l.Algorithm)
	case l.Anchor != Clock:
		return fmt.Errorf("anchor: %s does not apply to windows of a calendar; leave it out", l.Anchor)
	case l.Window != 0 && l.Window != longest[l.Calendar]:
		return fmt.Errorf("window: a window of a calendar has no length of its own; leave it out")
	}
	l.Window = longest[l.Calendar]
	if l.Zone == "" {
		l.Zone = "UTC"
	}
	_, err := zone(l.Zone)
	return err
}

var zones sync.Map // by name, *time.Location

// zone returns a time zone by its name. Names are few: each was accepted by Normalize.
func zone(name string) (*time.Location, error) {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location), nil
	}
	if name == "Local" {
		return nil, fmt.Errorf("zone: Local is another one on every machine; name it, such as Europe/Berlin")
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone: %q is not a time zone such as Europe/Berlin or UTC", name)
	}
	known, _ := zones.LoadOrStore(name, location)
	return known.(*time.Location), nil
}

// Bounds returns the period of the calendar that now lies in: where it starts and where the next one does. Ports are sent
// them, because only Go knows the time zones.
func (l *Limit) Bounds(now Micros) (start, end Micros) {
	in, err := zone(l.Zone)
	if err != nil {
		panic(err) // Normalize accepted it
	}
	return l.Calendar.bounds(now.Time().In(in))
}

func (p Period) bounds(t time.Time) (start, end Micros) {
	year, month, day := t.Date()
	switch p {
	case Week:
		day -= (int(t.Weekday()) + 6) % 7
	case Month:
		day = 1
	case Year:
		month, day = time.January, 1
	}
	at := func(n int) Micros {
		switch p {
		case Day:
			return midnight(year, month, day+n, t.Location())
		case Week:
			return midnight(year, month, day+7*n, t.Location())
		case Month:
			return midnight(year, month+time.Month(n), day, t.Location())
		default:
			return midnight(year+n, month, day, t.Location())
		}
	}
	start = at(0)
	n := 1
	for end = at(n); end <= Micros(t.UnixMicro()); end = at(n) { // a day that a zone left out
		start = end
		n++
	}
	return start, end
}

// midnight returns the first moment of a day: the earliest at which clocks in the zone show that date or a later one.
func midnight(year int, month time.Month, day int, in *time.Location) Micros {
	utc := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	for t := utc.Add(-26 * time.Hour).In(in); ; {
		from, until := t.ZoneBounds()
		if !until.IsZero() && !until.After(t) { // so it is on the 31st of December of leap years after 2037
			until = t.Add(time.Hour)
		}
		_, offset := t.Zone()
		at := utc.Add(-time.Duration(offset) * time.Second)
		if at.Before(from) { // the clocks were set forward over midnight
			at = from
		}
		if until.IsZero() || at.Before(until) {
			return Micros(at.UnixMicro())
		}
		t = until.In(in)
	}
}

// lookCalendar places the state of a calendar's window at now. A state that starts later than the period does was written by a
// program with other zone data: it counts, and its start stays, so that two such programs do not take turns in forgetting.
func (l *Limit) lookCalendar(s *State, now Micros) View {
	v := View{Now: now, At: now, start: s.Start}
	start, _ := l.Bounds(now)
	switch ahead := s.Start - now; {
	case s.absentWindow() || s.Start < start:
		v.start, v.shift = start, 1
	case ahead > l.Window: // the clock had jumped ahead: the count stays, the window comes back
		v.start, v.Moved = start, true
	case ahead > 0: // an older moment than the state's own is taken as that
		v.At = s.Start
	}
	v.Room = l.Quota - l.usedWindow(s, &v)
	return v
}
