package rule

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// These tests check that calendar windows begin and end where wall clocks say so.

// zonesOfTheWorld lists a hundred zones of every kind.
var zonesOfTheWorld = append([]string{
	"Africa/Abidjan", "Africa/Algiers", "Africa/Casablanca", "Africa/Johannesburg", "Africa/Juba", "Africa/Lagos",
	"Africa/Monrovia", "Africa/Nairobi", "Africa/Tripoli", "Africa/Tunis", "Africa/Windhoek", "America/Anchorage",
	"America/Araguaina", "America/Argentina/Buenos_Aires", "America/Asuncion", "America/Bogota", "America/Caracas",
	"America/Chicago", "America/Denver", "America/Goose_Bay", "America/Guatemala", "America/Halifax", "America/Havana",
	"America/La_Paz", "America/Lima", "America/Los_Angeles", "America/Managua", "America/Mexico_City", "America/Miquelon",
	"America/Montevideo", "America/Nuuk", "America/Panama", "America/Phoenix", "America/Port-au-Prince",
	"America/Santiago", "America/Santo_Domingo", "America/Scoresbysund", "America/Toronto", "America/Vancouver",
	"Antarctica/Casey", "Antarctica/Troll", "Asia/Almaty", "Asia/Amman", "Asia/Baghdad", "Asia/Baku", "Asia/Colombo",
	"Asia/Damascus", "Asia/Dhaka", "Asia/Dubai", "Asia/Gaza", "Asia/Hong_Kong", "Asia/Jakarta", "Asia/Jerusalem",
	"Asia/Kabul", "Asia/Karachi", "Asia/Kolkata", "Asia/Manila", "Asia/Pyongyang", "Asia/Riyadh", "Asia/Seoul",
	"Asia/Shanghai", "Asia/Singapore", "Asia/Taipei", "Asia/Tehran", "Asia/Tokyo", "Asia/Ulaanbaatar", "Asia/Yangon",
	"Atlantic/Azores", "Atlantic/Cape_Verde", "Australia/Adelaide", "Australia/Brisbane", "Australia/Eucla",
	"Australia/Perth", "Australia/Sydney", "Europe/Dublin", "Europe/Istanbul", "Europe/Kyiv", "Europe/Lisbon",
	"Europe/London", "Europe/Madrid", "Europe/Moscow", "Europe/Samara", "Indian/Maldives", "Indian/Mauritius",
	"Pacific/Auckland", "Pacific/Chatham", "Pacific/Fakaofo", "Pacific/Honolulu", "Pacific/Kwajalein",
}, someZones...)

// Every change of clocks in every zone over fifty years, and the days around it.
func TestCalendarOfTheWorld(t *testing.T) {
	from, to := time.Date(1995, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2046, 1, 1, 0, 0, 0, 0, time.UTC)
	if testing.Short() {
		to = from.AddDate(5, 0, 0)
	}
	moments := 0
	for _, name := range zonesOfTheWorld {
		in, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		_, offset := from.In(in).Zone()
		for at := from; at.Before(to); at = at.Add(12 * time.Hour) {
			_, next := at.In(in).Zone()
			if next == offset && at.YearDay() > 1 {
				continue
			}
			offset = next
			for _, beside := range []time.Duration{-36 * time.Hour, -18 * time.Hour, 0} {
				moments++
				checkBounds(t, name, Micros(at.Add(beside).UnixMicro()))
			}
		}
	}
	t.Logf("%d zones, %d moments", len(zonesOfTheWorld), moments)
}

// checkBounds compares the bounds of every period at a given time with what clocks have shown by then: a period begins when
// they first show one of its dates, and ends when they first show a later date.
func checkBounds(t tb, zone string, at Micros) {
	t.Helper()
	in, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for period := Day; period <= Year; period++ {
		l := normal(t, Limit{Quota: 1, Calendar: period, Zone: zone})
		start, end := l.Bounds(at)
		shown := func(at Micros) int { return latestPeriod(period, in, at) }
		now := shown(at)
		switch {
		case start > at || at >= end || end-start > l.Window+6*60*minute:
		case shown(start) != now || shown(start-1) >= now || shown(end-1) != now || shown(end) <= now:
		default:
			if again, _ := l.Bounds(end); again != end {
				t.Fatalf("%s of %s: ends at %v, but no period starts there", period, zone, end.Time().UTC())
			}
			continue
		}
		t.Fatalf("%s of %s at %v: %v to %v", period, zone, at.Time().UTC(), start.Time().UTC(), end.Time().UTC())
	}
}

// Any time in any zone, even beyond the zone's table.
func TestCalendarBounds(t *testing.T) {
	property(t, 2_000, func(t *rapid.T) {
		l := drawCalendar(t)
		checkBounds(t, l.Zone, clamp(drawOrigin(t, &l), 0, MaxNow))
	})
}

func TestCalendarWindows(t *testing.T) {
	at := func(zone, text string) Micros {
		in, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		moment, err := time.ParseInLocation("2006-01-02 15:04:05", text, in)
		if err != nil {
			t.Fatal(err)
		}
		return Micros(moment.UnixMicro())
	}
	const berlin = "Europe/Berlin"
	hour := 60 * minute
	// Clocks are set forward on the 29th: the day has 23 hours, and the month one less than 744.
	play(t, Limit{Quota: 3, Calendar: Day, Zone: berlin}, []step{
		{at: at(berlin, "2026-03-29 00:00:00"), cost: 2, want: allowed(1).reset(23 * hour)},
		{at: at(berlin, "2026-03-29 01:00:00"), cost: 2, want: refused(1).retry(22 * hour)},
		{at: at(berlin, "2026-03-30 00:00:00") - 1, cost: 1, want: allowed(0).next(1).reset(1)},
		{at: at(berlin, "2026-03-30 00:00:00"), cost: 3, want: allowed(0).next(24 * hour)},
	})
	play(t, Limit{Quota: 1000, Calendar: Month, Zone: berlin}, []step{
		{at: at(berlin, "2026-03-01 00:00:00"), cost: 1000, want: allowed(0).next(743 * hour)},
		{at: at(berlin, "2026-04-01 00:00:00"), cost: 1000, want: allowed(0).next(720 * hour)},
		{at: at(berlin, "2027-02-28 23:59:59"), cost: 1000, want: allowed(0).next(second)},
		// Units return to the period in which they were taken, and to no other.
		{at: at(berlin, "2027-03-01 00:00:00"), op: GiveBack, cost: 9, back: at(berlin, "2027-02-28 23:59:59"), want: allowed(1000).granted(0)},
		{at: at(berlin, "2027-03-01 00:00:00"), cost: 10, want: allowed(990)},
		{at: at(berlin, "2027-03-01 01:00:00"), op: GiveBack, cost: 9, back: at(berlin, "2027-02-28 23:59:59"), want: allowed(990).granted(0)},
		{at: at(berlin, "2027-03-09 00:00:00"), op: GiveBack, cost: 9, back: at(berlin, "2027-03-01 00:00:00"), want: allowed(999).granted(9)},
	})
	// A week begins on Monday, a leap year has 366 days, and a clock that steps back does not restore the previous period.
	play(t, Limit{Quota: 5, Calendar: Week}, []step{
		{at: at("UTC", "2026-11-15 23:59:59"), cost: 5, want: allowed(0).next(second)},
		{at: at("UTC", "2026-11-16 00:00:00"), cost: 4, want: allowed(1).reset(168 * hour)},
		{at: at("UTC", "2026-11-15 23:59:59"), cost: 2, want: refused(1).deciding(at("UTC", "2026-11-16 00:00:00")).retry(168*hour + second)},
		{at: at("UTC", "2026-10-01 00:00:00"), cost: 2, want: refused(1).moved().retry(96 * hour)},
	})
	play(t, Limit{Quota: 5, Calendar: Year}, []step{{at: at("UTC", "2028-01-01 00:00:00"), cost: 5, want: allowed(0).next(366 * 24 * hour)}})
	// Samoa skipped 30 December 2011; in Beirut, midnight is skipped when summer time begins.
	play(t, Limit{Quota: 5, Calendar: Day, Zone: "Pacific/Apia"}, []step{
		{at: at("Pacific/Apia", "2011-12-29 00:00:00"), cost: 5, want: allowed(0).next(24 * hour)},
		{at: at("Pacific/Apia", "2011-12-31 00:00:00"), cost: 5, want: allowed(0).next(24 * hour)},
	})
	play(t, Limit{Quota: 5, Calendar: Day, Zone: "Asia/Beirut"}, []step{
		{at: at("Asia/Beirut", "2026-03-28 23:59:59"), cost: 5, want: allowed(0).next(second)},
		{at: at("Asia/Beirut", "2026-03-29 01:00:00"), cost: 5, want: allowed(0).next(23 * hour)},
	})
}

// The zone lookup once failed on the last day of leap years after 2037.
func TestCalendarAtTheEndOfLeapYears(t *testing.T) {
	for _, zone := range someZones {
		for _, year := range []int{2040, 2044, 2048, 2240} {
			for day := 29; day <= 32; day++ {
				checkBounds(t, zone, Micros(time.Date(year, 12, day, 12, 30, 0, 0, time.UTC).UnixMicro()))
			}
		}
	}
}
