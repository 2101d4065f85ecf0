package rule_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// calendarStep requests one unit. Again is when to retry; it is empty if the request is admitted.
type calendarStep struct {
	at        string
	remaining int64
	again     string
}

func playCalendar(t *testing.T, l rule.Limit, script []calendarStep) {
	t.Helper()
	l, err := l.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	var s rule.State
	for _, st := range script {
		now := parseMicros(t, st.at)
		items, answers := []rule.Item{{Limit: &l, State: &s, Cost: 1}}, make([]rule.Answer, 1)
		rule.Decide(rule.Take, items, now, answers)
		a := answers[0]
		if a.Allowed != (st.again == "") || a.Remaining != st.remaining {
			t.Fatalf("at %s: allowed %v with %d left, want %v with %d", st.at, a.Allowed, a.Remaining, st.again == "", st.remaining)
		}
		if st.again != "" && now+a.RetryAfter != parseMicros(t, st.again) {
			t.Fatalf("at %s: retry after %v, want at %s", st.at, a.RetryAfter.Duration(), st.again)
		}
		if after := max(a.NextAfter, a.RetryAfter); after > 0 {
			if admits(&l, s, now+after-1) || !admits(&l, s, now+after) {
				t.Fatalf("at %s: a unit is not free exactly %v later", st.at, after.Duration())
			}
		}
	}
}

func admits(l *rule.Limit, s rule.State, now rule.Micros) bool {
	s = s.Clone()
	a, _ := l.TakeOne(&s, now, 1)
	return a.Allowed
}

func TestDaysOverDaylightSaving(t *testing.T) {
	l := rule.Limit{Quota: 2, Calendar: rule.Day, Zone: "Europe/Berlin"}
	playCalendar(t, l, []calendarStep{ // 23 hours
		{at: "2024-03-31T00:00:00+01:00", remaining: 1},
		{at: "2024-03-31T01:59:59.999999+01:00", remaining: 0},
		{at: "2024-03-31T03:00:00+02:00", again: "2024-04-01T00:00:00+02:00"},
		{at: "2024-03-31T23:59:59.999999+02:00", again: "2024-04-01T00:00:00+02:00"},
		{at: "2024-04-01T00:00:00+02:00", remaining: 1},
	})
	playCalendar(t, l, []calendarStep{ // 25 hours
		{at: "2024-10-26T23:59:59.999999+02:00", remaining: 1},
		{at: "2024-10-27T00:00:00+02:00", remaining: 1},
		{at: "2024-10-27T02:30:00+02:00", remaining: 0},
		{at: "2024-10-27T02:30:00+01:00", again: "2024-10-28T00:00:00+01:00"}, // the same time on the clock, an hour later
		{at: "2024-10-28T00:00:00+01:00", remaining: 1},
	})
}

func TestDaysThatBeginAfterMidnight(t *testing.T) {
	playCalendar(t, rule.Limit{Quota: 1, Calendar: rule.Day, Zone: "Asia/Beirut"}, []calendarStep{
		{at: "2024-03-30T23:00:00+02:00", remaining: 0},
		{at: "2024-03-30T23:30:00+02:00", again: "2024-03-31T01:00:00+03:00"}, // half an hour later
		{at: "2024-03-31T01:00:00+03:00", remaining: 0},
		{at: "2024-03-31T02:00:00+03:00", again: "2024-04-01T00:00:00+03:00"},
	})
}

// The hour that is repeated after midnight belongs to the day that has begun: yesterday's quota does not come back.
func TestClocksSetBackOverMidnight(t *testing.T) {
	playCalendar(t, rule.Limit{Quota: 1, Calendar: rule.Day, Zone: "America/St_Johns"}, []calendarStep{
		{at: "2010-11-06T23:59:00-02:30", remaining: 0},
		{at: "2010-11-07T00:00:30-02:30", remaining: 0},
		{at: "2010-11-06T23:30:00-03:30", again: "2010-11-08T00:00:00-03:30"},
		{at: "2010-11-07T00:00:00-03:30", again: "2010-11-08T00:00:00-03:30"},
	})
}

func TestMonthsOverFebruary(t *testing.T) {
	l := rule.Limit{Quota: 1, Calendar: rule.Month, Zone: "Europe/Berlin"}
	playCalendar(t, l, []calendarStep{
		{at: "2023-01-31T23:59:59.999999+01:00", remaining: 0},
		{at: "2023-02-01T00:00:00+01:00", remaining: 0},
		{at: "2023-02-28T23:59:59+01:00", again: "2023-03-01T00:00:00+01:00"},
		{at: "2023-03-01T00:00:00+01:00", remaining: 0},
		{at: "2023-03-01T00:00:01+01:00", again: "2023-04-01T00:00:00+02:00"}, // in summer time
	})
	playCalendar(t, l, []calendarStep{
		{at: "2024-02-01T00:00:00+01:00", remaining: 0},
		{at: "2024-02-28T12:00:00+01:00", again: "2024-03-01T00:00:00+01:00"}, // a day later than in 2023
	})
}

func TestWeeksBeginOnMonday(t *testing.T) {
	playCalendar(t, rule.Limit{Quota: 1, Calendar: rule.Week, Zone: "America/New_York"}, []calendarStep{
		{at: "2024-11-03T23:59:59-05:00", remaining: 0}, // a Sunday, on which clocks were set back
		{at: "2024-11-04T00:00:00-05:00", remaining: 0},
		{at: "2024-11-10T12:00:00-05:00", again: "2024-11-11T00:00:00-05:00"},
	})
}

func TestYearsEndInTheirZone(t *testing.T) {
	playCalendar(t, rule.Limit{Quota: 1, Calendar: rule.Year, Zone: "Pacific/Auckland"}, []calendarStep{
		{at: "2023-12-31T10:59:59Z", remaining: 0},
		{at: "2023-12-31T11:00:00Z", remaining: 0},
		{at: "2024-06-01T00:00:00Z", again: "2024-12-31T11:00:00Z"},
	})
}

func TestInvalidZones(t *testing.T) {
	for zone, fix := range map[string]string{
		"Local": "name a zone", "Europe/Atlantis": "such as Europe/Berlin", "../etc/passwd": "such as Europe/Berlin", "+02:00": "such as Europe/Berlin",
	} {
		_, err := rule.Limit{Quota: 1, Calendar: rule.Day, Zone: zone}.Normalize()
		if !errors.Is(err, rule.ErrLimit) || !strings.Contains(err.Error(), "zone: ") || !strings.Contains(err.Error(), fix) {
			t.Errorf("zone %s: %v, want an error that names the field and says %q", zone, err, fix)
		}
	}
	l := calendarLimit(t, rule.Day, "")
	if l.Zone != "UTC" {
		t.Errorf("without a zone: got %q, want UTC", l.Zone)
	}
}

// The calendar cache is shared: concurrent requests for other times must not change any result.
func TestBoundsConcurrently(t *testing.T) {
	l := calendarLimit(t, rule.Day, "Europe/Berlin")
	var group sync.WaitGroup
	for seed := range uint64(4) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, 15))
			for range 2_000 {
				now := microsOf(time.Date(2024, 3, 30, 12, 0, 0, 0, time.UTC)) + rule.Micros(random.Int64N(10*24*3600e6))
				start, end := l.Bounds(now)
				at := now.Time().In(location(t, l.Zone))
				year, month, day := at.Date()
				if want := microsOf(time.Date(year, month, day, 0, 0, 0, 0, at.Location())); start != want || now >= end || end-start > 24*3600e6 {
					t.Errorf("got the day of %v as %v to %v", at, start.Time(), end.Time())
					return
				}
			}
		})
	}
	group.Wait()
}

func TestAllocBounds(t *testing.T) {
	l := calendarLimit(t, rule.Month, "Europe/Berlin")
	now := parseMicros(t, "2024-02-20T12:00:00Z")
	l.Bounds(now)
	if n := testing.AllocsPerRun(100, func() {
		start, end := l.Bounds(now)
		l.Bounds(start - 1)
		l.Bounds(end)
	}); n != 0 {
		t.Errorf("%v allocations, want 0 for the current period and its neighbors", n)
	}
}

func BenchmarkBounds(b *testing.B) {
	l := calendarLimit(b, rule.Month, "Europe/Berlin")
	now := parseMicros(b, "2024-02-20T12:00:00Z")
	for b.Loop() {
		l.Bounds(now)
	}
}

func BenchmarkDecideCalendar(b *testing.B) {
	l := calendarLimit(b, rule.Day, "Europe/Berlin")
	now := parseMicros(b, "2024-02-20T12:00:00Z")
	var s rule.State
	for b.Loop() {
		l.TakeOne(&s, now, 1)
	}
}
