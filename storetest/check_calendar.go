package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/rule"
)

// checkCalendar: calendar windows begin where clocks in their zone say so, across changes to and from daylight saving time
// and months of every length, wherever the store's clock is.
func checkCalendar(t testing.TB, s *suite) {
	p := s.pair(t)
	for i, script := range calendarScripts() {
		limit := p.bindRule(fmt.Sprintf("calendar-%d", i), script.limit)
		if limit == nil {
			continue
		}
		p.forgetSubjects()
		p.title = fmt.Sprintf("%d/%s in %s", script.limit.Quota, script.limit.Calendar, script.limit.Zone)
		for _, step := range script.steps {
			at, err := time.Parse(time.RFC3339, step.at)
			if err != nil {
				t.Fatal(err)
			}
			p.moveTo(rule.Micros(at.UnixMicro()))
			a := p.single(rule.Take, limit, "key", step.cost)
			if a.Allowed != step.allowed || a.Remaining != step.left || answering.After(&a).Duration() != step.after {
				p.fatalf("at %s: got %+v, want allowed %v with %d left and the next in %v", step.at, a, step.allowed, step.left, step.after)
			}
		}
	}
	for i, limit := range calendars() {
		q := p.sequenceOf(2_000+i, everyOp, limit)
		if q == nil {
			continue
		}
		// Every year from 2001 on begins on another day of the week, and its clocks change on other days.
		for year := range s.times(20) {
			p.moveTo(rule.Micros(time.Date(2002+7*year, time.Month(1+5*year%12), 1, 0, 0, 0, 0, time.UTC).UnixMicro()))
			q.times, q.settled = nil, nil
			q.play(12)
		}
	}
}

type calendarStep struct {
	at      string
	cost    int64
	allowed bool
	left    int64
	after   time.Duration
}

type calendarScript struct {
	limit rule.Limit
	steps []calendarStep
}

func calendarScripts() []calendarScript {
	const hour, second = time.Hour, time.Second
	return []calendarScript{
		{rule.Limit{Calendar: rule.Day, Quota: 3, Zone: "Europe/Berlin"}, []calendarStep{
			{"2026-03-28T23:00:00Z", 3, true, 0, 23 * hour}, // clocks are set forward
			{"2026-03-29T21:59:59Z", 1, false, 0, second},
			{"2026-03-29T22:00:00Z", 3, true, 0, 24 * hour},
			{"2026-10-24T22:00:00Z", 3, true, 0, 25 * hour}, // clocks are set back
		}},
		{rule.Limit{Calendar: rule.Month, Quota: 1000, Zone: "Europe/Berlin"}, []calendarStep{
			{"2026-02-28T22:59:59Z", 1000, true, 0, second},
			{"2026-02-28T23:00:00Z", 1000, true, 0, 743 * hour},
			{"2026-03-31T22:00:00Z", 999, true, 1, 0},
			{"2026-04-30T21:59:59Z", 2, false, 1, second},
			{"2028-01-31T23:00:00Z", 1000, true, 0, 29 * 24 * hour}, // a leap year
		}},
		{rule.Limit{Calendar: rule.Week, Quota: 5, Zone: "UTC"}, []calendarStep{
			{"2026-11-15T23:59:59Z", 5, true, 0, second}, // a Sunday
			{"2026-11-16T00:00:00Z", 5, true, 0, 168 * hour},
			{"2026-11-15T23:59:59Z", 1, false, 0, 168*hour + second}, // the clock stepped back: the week does not
		}},
		{rule.Limit{Calendar: rule.Year, Quota: 5, Zone: "Asia/Kathmandu"}, []calendarStep{
			{"2027-12-31T18:14:59Z", 5, true, 0, second},
			{"2027-12-31T18:15:00Z", 5, true, 0, 366 * 24 * hour},
		}},
		{rule.Limit{Calendar: rule.Day, Quota: 5, Zone: "Asia/Beirut"}, []calendarStep{
			{"2026-03-28T21:59:59Z", 5, true, 0, second}, // the 29th begins at one o'clock
			{"2026-03-28T22:00:00Z", 5, true, 0, 23 * hour},
		}},
	}
}
