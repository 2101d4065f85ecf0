package rule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// calendarZones lists zones of every continent, and those in which something unusual has happened since 1970.
var calendarZones = strings.Fields(`
UTC Europe/Berlin America/New_York America/Los_Angeles Asia/Tokyo Asia/Shanghai Europe/Dublin Europe/Moscow Europe/Lisbon
America/Sao_Paulo Asia/Beirut America/Santiago America/Havana America/St_Johns America/Goose_Bay America/Asuncion
America/Nuuk America/Scoresbysund Africa/Cairo Africa/Casablanca Africa/El_Aaiun Asia/Gaza Asia/Amman Asia/Damascus
Pacific/Apia Pacific/Fakaofo Pacific/Kwajalein Pacific/Kiritimati Pacific/Enderbury Pacific/Tongatapu Pacific/Chatham
Asia/Kolkata Asia/Kathmandu Asia/Tehran Asia/Kabul Asia/Yangon Asia/Pyongyang Australia/Lord_Howe Australia/Eucla
Australia/Adelaide Australia/Darwin Pacific/Marquesas Pacific/Norfolk America/Caracas Asia/Colombo Africa/Monrovia
Antarctica/Casey Antarctica/Vostok Antarctica/Troll Antarctica/Rothera America/Danmarkshavn Asia/Ust-Nera America/Juneau
Africa/Algiers Africa/Ceuta Africa/Djibouti Africa/Johannesburg Africa/Juba Africa/Khartoum Africa/Lagos Africa/Maputo
Africa/Nairobi Africa/Sao_Tome Africa/Tripoli Africa/Tunis Africa/Windhoek America/Anchorage America/Argentina/Buenos_Aires
America/Argentina/San_Luis America/Atka America/Belem America/Bogota America/Campo_Grande America/Cancun America/Cayenne
America/Ciudad_Juarez America/Coyhaique America/Detroit America/Guayaquil America/Halifax America/Hermosillo
America/Indiana/Petersburg America/Jamaica America/Lima America/Managua America/Metlakatla America/Mexico_City
America/Miquelon America/Noronha America/Panama America/Port-au-Prince America/Puerto_Rico America/Resolute America/Toronto
America/Vancouver America/Whitehorse Antarctica/Mawson Antarctica/Palmer Asia/Almaty Asia/Anadyr Asia/Baghdad Asia/Baku
Asia/Bangkok Asia/Dhaka Asia/Dili Asia/Dubai Asia/Hebron Asia/Hong_Kong Asia/Hovd Asia/Jakarta Asia/Jerusalem Asia/Karachi
Asia/Khandyga Asia/Magadan Asia/Manila Asia/Nicosia Asia/Qyzylorda Asia/Riyadh Asia/Seoul Asia/Singapore Asia/Taipei
Asia/Tashkent Asia/Tbilisi Asia/Tomsk Asia/Urumqi Asia/Yerevan Atlantic/Azores Atlantic/Reykjavik Atlantic/Stanley
Australia/Brisbane Australia/Hobart Australia/Perth Australia/Sydney Europe/Athens Europe/Istanbul Europe/Kaliningrad
Europe/Kyiv Europe/London Europe/Minsk Europe/Samara Europe/Simferopol Europe/Volgograd Europe/Warsaw Indian/Maldives
Indian/Mauritius Pacific/Auckland Pacific/Bougainville Pacific/Easter Pacific/Fiji Pacific/Galapagos Pacific/Guam
Pacific/Honolulu Pacific/Pitcairn Pacific/Port_Moresby Etc/GMT+12 Etc/GMT-14`)

var calendarPeriods = []rule.Period{rule.Day, rule.Week, rule.Month, rule.Year}

func calendarLimit(t testing.TB, p rule.Period, zone string) rule.Limit {
	t.Helper()
	l, err := rule.Limit{Quota: 5, Calendar: p, Zone: zone}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// location returns a zone from package time, which the tests compare with.
func location(t testing.TB, zone string) *time.Location {
	t.Helper()
	in, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func microsOf(t time.Time) rule.Micros { return rule.Micros(t.UnixMicro()) }

// firstDay returns the first date of the period that contains t's date, as days since the epoch. It uses dates only, no
// zones.
func firstDay(p rule.Period, t time.Time) int64 {
	year, month, day := t.Date()
	switch p {
	case rule.Week:
		day -= (int(t.Weekday()) + 6) % 7
	case rule.Month:
		day = 1
	case rule.Year:
		month, day = time.January, 1
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / 86_400
}

func TestBoundsAgainstTime(t *testing.T) {
	if len(calendarZones) < 100 {
		t.Fatalf("got %d zones, want at least 100", len(calendarZones))
	}
	from, until := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2041, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, zone := range calendarZones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			in := location(t, zone)
			for _, p := range calendarPeriods {
				l := calendarLimit(t, p, zone)
				for now := microsOf(from); now < microsOf(until); {
					start, end := l.Bounds(now)
					checkBounds(t, &l, in, now, start, end)
					now = end
				}
			}
		})
	}
}

// checkBounds compares the period of now, which follows another one that was checked, with what clocks in the zone show.
func checkBounds(t *testing.T, l *rule.Limit, in *time.Location, now, start, end rule.Micros) {
	t.Helper()
	shown := func(m rule.Micros) int64 { return firstDay(l.Calendar, m.Time().In(in)) }
	fail := func(what string) {
		t.Helper()
		t.Fatalf("%s: the period of %v is %v to %v: %s", l.Calendar, now.Time().In(in), start.Time().In(in), end.Time().In(in), what)
	}
	switch {
	case start > now || now >= end:
		fail("it does not contain the time")
	case end-start > l.Window:
		fail("it is longer than the limit's window " + l.Window.Duration().String())
	case shown(start-1) >= shown(start) || shown(end-1) >= shown(end):
		fail("it does not begin or end where clocks show another period's date")
	}
	for _, m := range []rule.Micros{start, start + (end-start)/2, end - 1} {
		if s, e := l.Bounds(m); s != start || e != end {
			fail("it is a different one for " + m.Time().In(in).String())
		}
	}
	// If clocks changed shortly before the end, they may already have shown the next period's date.
	if _, before := time.UnixMicro(int64(end - 8*3600e6)).In(in).Zone(); before == offset(end, in) {
		return
	}
	for m := max(start, end-8*3600e6); m < end; m += 60e6 {
		if shown(m) >= shown(end) {
			fail("clocks already showed the next period's date at " + m.Time().In(in).String())
		}
	}
}

func offset(m rule.Micros, in *time.Location) int {
	_, offset := m.Time().In(in).Zone()
	return offset
}

// Clocks that change at midnight, and a date that is missing.
func TestBoundsOfUnusualDays(t *testing.T) {
	for _, tt := range []struct{ zone, at, start, end string }{
		{"America/Sao_Paulo", "2018-11-04T12:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"America/Sao_Paulo", "2018-02-17T23:30:00-03:00", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		{"Asia/Beirut", "2024-03-31T12:00:00+03:00", "2024-03-31T01:00:00+03:00", "2024-04-01T00:00:00+03:00"},
		{"America/Santiago", "2024-09-08T12:00:00-03:00", "2024-09-08T01:00:00-03:00", "2024-09-09T00:00:00-03:00"},
		{"America/Santiago", "2024-04-06T23:30:00-04:00", "2024-04-06T00:00:00-03:00", "2024-04-07T00:00:00-04:00"},
		{"America/Havana", "2024-03-10T12:00:00-04:00", "2024-03-10T01:00:00-04:00", "2024-03-11T00:00:00-04:00"},
		{"America/Havana", "2024-11-03T00:30:00-05:00", "2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00"},
		// Set back from 00:01 to 23:01: midnight comes twice, and the day begins at the first.
		{"America/St_Johns", "2010-11-06T23:30:00-02:30", "2010-11-06T00:00:00-02:30", "2010-11-07T00:00:00-02:30"},
		{"America/St_Johns", "2010-11-07T00:00:30-02:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"America/St_Johns", "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"Pacific/Apia", "2011-12-31T12:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		{"Pacific/Kiritimati", "1995-01-01T12:00:00+14:00", "1995-01-01T00:00:00+14:00", "1995-01-02T00:00:00+14:00"},
		{"Asia/Kolkata", "2024-02-29T23:59:59+05:30", "2024-02-29T00:00:00+05:30", "2024-03-01T00:00:00+05:30"},
		{"Australia/Lord_Howe", "2024-04-07T12:00:00+10:30", "2024-04-07T00:00:00+11:00", "2024-04-08T00:00:00+10:30"},
		{"Europe/Berlin", "2024-03-31T12:00:00+02:00", "2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00"},
		// The last day of a leap year, beyond the zone's table.
		{"Europe/Berlin", "2048-12-31T12:00:00+01:00", "2048-12-31T00:00:00+01:00", "2049-01-01T00:00:00+01:00"},
		{"America/New_York", "2048-12-31T12:00:00-05:00", "2048-12-31T00:00:00-05:00", "2049-01-01T00:00:00-05:00"},
	} {
		l := calendarLimit(t, rule.Day, tt.zone)
		start, end := l.Bounds(parseMicros(t, tt.at))
		if start != parseMicros(t, tt.start) || end != parseMicros(t, tt.end) {
			in := location(t, tt.zone)
			t.Errorf("%s: the day of %s is %v to %v, want %s to %s", tt.zone, tt.at, start.Time().In(in), end.Time().In(in), tt.start, tt.end)
		}
	}
}

func parseMicros(t testing.TB, text string) rule.Micros {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return microsOf(at)
}

// The whole accepted range of time, from the epoch to centuries beyond every zone's table, in both directions.
func TestBoundsOverAllTime(t *testing.T) {
	for z, zone := range []string{"Europe/Berlin", "America/Nuuk", "UTC", "America/New_York", "Asia/Gaza", "Africa/Casablanca",
		"Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kiritimati", "America/Santiago", "Europe/Dublin", "Antarctica/Troll"} {
		in := location(t, zone)
		for _, p := range calendarPeriods {
			if p == rule.Day && z > 1 {
				continue // a hundred thousand days of two zones are enough
			}
			l := calendarLimit(t, p, zone)
			for now := rule.Micros(0); now < rule.MaxNow; {
				start, end := l.Bounds(now)
				checkBounds(t, &l, in, now, start, end)
				now = end
			}
			last, _ := l.Bounds(rule.MaxNow)
			for n := 0; n < 100; n++ {
				start, end := l.Bounds(last - 1)
				if end != last {
					t.Fatalf("%s in %s: the period before %v ends at %v", p, zone, last.Time().In(in), end.Time().In(in))
				}
				last = start
			}
		}
	}
}

func TestMonthsOfAllLengths(t *testing.T) {
	l := calendarLimit(t, rule.Month, "Europe/Berlin")
	// March is an hour shorter and October an hour longer.
	for i, want := range []time.Duration{31 * 24, 29 * 24, 31*24 - 1, 30 * 24, 31 * 24, 30 * 24, 31 * 24, 31 * 24, 30 * 24, 31*24 + 1, 30 * 24, 31 * 24} {
		start, end := l.Bounds(microsOf(time.Date(2024, time.Month(i+1), 15, 0, 0, 0, 0, time.UTC)))
		if got := (end - start).Duration(); got != want*time.Hour {
			t.Errorf("%v 2024 in Berlin has %v, want %v", time.Month(i+1), got, want*time.Hour)
		}
	}
	for year, days := range map[int]time.Duration{1999: 28, 2000: 29, 2023: 28, 2024: 29, 2100: 28} {
		start, end := l.Bounds(microsOf(time.Date(year, 2, 15, 0, 0, 0, 0, time.UTC)))
		if got := (end - start).Duration(); got != days*24*time.Hour {
			t.Errorf("February %d has %v, want %d days", year, got, days)
		}
	}
}
