package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests check that calendar windows count as in the rule, and are measured by their periods.

func drawCalendar(t *rapid.T, name string) slidegate.Limit {
	return slidegate.Limit{
		Name: name, Quota: rapid.Int64Range(1, 12).Draw(t, "quota"), CountRefused: rapid.Bool().Draw(t, "count refused"),
		Calendar: rapid.SampledFrom([]rule.Period{
			rule.Day, rule.Week, rule.Month, rule.Year,
		}).Draw(t, "calendar"),
		Zone: rapid.SampledFrom([]string{"", "Europe/Berlin", "America/St_Johns", "Asia/Beirut", "Pacific/Apia"}).Draw(t, "zone"),
	}
}

const wholeDay = 24 * time.Hour

func TestCalendarLaneDecidesAsTheRule(t *testing.T) {
	property(t, 500, func(t *rapid.T) {
		limit := drawCalendar(t, "")
		steps := rapid.SampledFrom([]time.Duration{wholeDay, 7 * wholeDay, 31 * wholeDay}).Draw(t, "steps of")
		checkLane(t, limit, drawTraffic(t, steps, 60, jumping))
	})
}

// The highest count is that of a period, and calendar windows are not compared with a log of some length.
func TestCalendarIsMeasuredByItsPeriods(t *testing.T) {
	property(t, 200, func(t *rapid.T) {
		limit := drawCalendar(t, "")
		reqs := drawTraffic(t, 7*wholeDay, 80, forward)
		found := find(t, Options{Limits: []slidegate.Limit{limit}, Compare: true}, reqs)
		r := rulesOf(t, []slidegate.Limit{limit})[0]
		type period struct {
			key   string
			start rule.Micros
		}
		admitted := map[period]int64{}
		want := Highest{}
		for _, v := range decideAll(t, []slidegate.Limit{limit}, reqs) {
			start, _ := r.Bounds(v.at)
			if v.allowed {
				own := period{v.key, start}
				admitted[own] += v.cost
				if v.cost > 0 && admitted[own] > want.Units {
					want = Highest{Units: admitted[own], Key: v.key, At: v.at}
				}
			}
		}
		got := found.Outcome.Limits[0]
		if got.Highest != want || got.WrongAdmitted != 0 || got.WrongRefused != 0 {
			t.Fatalf("%v: got %+v, want the highest %+v and nothing wrong", limit, got, want)
		}
		if got.Window != 0 || got.Calendar != limit.Calendar.String() || got.Zone != r.Zone {
			t.Fatalf("%v: window %d, calendar %s in %s", limit, got.Window, got.Calendar, got.Zone)
		}
		if len(found.Compare) != 0 || len(found.NotCompared) != 1 || !strings.Contains(found.NotCompared[0].Why, limit.String()) {
			t.Fatalf("%v: got %d compared, omitted %v", limit, len(found.Compare), found.NotCompared)
		}
	})
}

// Together with a limit of another kind, the exact log counts the units of a calendar window by period, and so does a
// comparison.
func TestCalendarWithAnotherLimit(t *testing.T) {
	month := slidegate.MustParseLimit("3/month zone=Europe/Berlin")
	limits := []slidegate.Limit{month, slidegate.MustParseLimit("9/1m fixed-window")}
	last := rule.Micros(time.Date(2024, 3, 31, 21, 59, 0, 0, time.UTC).UnixMicro()) // a minute before April in Berlin
	reqs := []testRequest{
		{last, "a", 1}, {last, "a", 2}, {last, "a", 1}, // full
		{last + minute - 1, "a", 1},
		{last + minute, "a", 3}, // April
		{last + 2*minute, "a", 1},
	}
	found := find(t, Options{Limits: limits, Compare: true, Sweep: []int64{2, 6}, Suggest: true}, reqs)
	got := found.Outcome.Limits[0]
	want := LimitOutcome{
		Limit: "3/month zone=Europe/Berlin", Quota: 3, Calendar: "month", Zone: "Europe/Berlin", Refused: 3,
		Highest: Highest{Units: 3, Key: "a", At: last}, LiveKeys: 1, StateBytes: 16,
	}
	if got != want {
		t.Errorf("got %+v, want\n%+v", got, want)
	}
	if len(found.Compare) != 7 || found.Compare[0].Limits[0].Limit != month.String() || found.Compare[0].Limits[0].Refused != 3 {
		t.Errorf("got compared %+v, want seven, with the same month in each", found.Compare)
	}
	if got := found.Suggestion.Outcome.Limits[0].Limit; got != "5/month zone=Europe/Berlin" {
		t.Errorf("got suggestion %s, want 5/month zone=Europe/Berlin", got)
	}
	if points := found.Sweep.Points; points[0].Refused != 3 || points[1].Refused != 0 {
		t.Errorf("got sweep %+v, want 3 refused at 2 and none at 6", points)
	}
}
