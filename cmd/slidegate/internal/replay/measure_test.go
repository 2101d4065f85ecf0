package replay

import (
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests compare the figures of a limit with a count of everything at every request.

// within sums the units in the window that ends at now.
func within(entries []entry, now, window rule.Micros) (n int64) {
	for _, e := range entries {
		if e.at > now-window && e.at <= now {
			n += e.units
		}
	}
	return n
}

// measured returns the outcome of the limit at index, compared with a sliding log of the same quotas and windows.
func measured(t tb, limits []slidegate.Limit, index int, reqs []testRequest) (found LimitOutcome) {
	t.Helper()
	var logs []slidegate.Limit
	for _, l := range limits {
		logs = append(logs, slidegate.Limit{
			Name: l.Name, Quota: l.Quota, Window: l.Window, CountRefused: l.CountRefused, Algorithm: slidegate.SlidingLog,
		})
	}
	limit := limits[index]
	found = LimitOutcome{Limit: limit.String(), Quota: limit.Quota, Window: rule.Micros(limit.Window.Microseconds())}
	exact := decideAll(t, logs, reqs)
	admitted := map[string][]entry{}
	for i, v := range decideAll(t, limits, reqs) {
		admits, fits := v.answers[index].Allowed, exact[i].answers[index].Allowed
		if !admits {
			found.Refused++
		}
		if v.cost == 0 {
			continue
		}
		if admits && !fits {
			found.WrongAdmitted++
		}
		if !admits && fits {
			found.WrongRefused++
		}
		if v.allowed {
			admitted[v.key] = append(admitted[v.key], entry{v.at, v.cost})
			if n := within(admitted[v.key], v.at, found.Window); n > found.Highest.Units {
				found.Highest = Highest{Units: n, Key: v.key, At: v.at}
			}
		}
	}
	return found
}

func drawLimits(t *rapid.T) []slidegate.Limit {
	var limits []slidegate.Limit
	for _, name := range []string{"a", "b", "c"}[:rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "limits")] {
		limits = append(limits, drawLimit(t, name))
	}
	return limits
}

func TestMeasuresAreACountOfEverything(t *testing.T) {
	property(t, 250, func(t *rapid.T) {
		limits := drawLimits(t)
		reqs := drawTraffic(t, limits[0].Window, 80, forward)
		found := find(t, Options{Limits: limits, Compare: true}, reqs)
		for i := range limits {
			checkMeasured(t, &found.Outcome.Limits[i], limits, i, reqs)
		}
		for _, row := range found.Compare { // they are compared with the same log
			those := make([]slidegate.Limit, len(limits))
			for i := range limits {
				those[i] = slidegate.MustParseLimit(row.Limits[i].Limit)
			}
			for i := range limits {
				checkMeasured(t, &row.Limits[i], those, i, reqs)
			}
		}
	})
}

func checkMeasured(t tb, got *LimitOutcome, limits []slidegate.Limit, index int, reqs []testRequest) {
	t.Helper()
	want := measured(t, limits, index, reqs)
	want.LiveKeys, want.StateBytes = got.LiveKeys, got.StateBytes // the census has separate tests
	if *got != want {
		t.Fatalf("%v of %v:\n%+v, want\n%+v\n%+v", limits[index], limits, *got, want, reqs)
	}
}

// A sliding log is exact, so none of its decisions is wrong: not even if the clock steps back, when it uses the time of
// its newest unit, or jumps, after which it moves its units back.
func TestLogIsNeverWrong(t *testing.T) {
	property(t, 400, func(t *rapid.T) {
		limit := drawLimit(t, "")
		limit = slidegate.Limit{Quota: limit.Quota, Window: limit.Window, CountRefused: limit.CountRefused, Algorithm: slidegate.SlidingLog}
		r, err := newRun("", onlyGroup([]slidegate.Limit{limit}), false)
		if err != nil {
			t.Fatal(err)
		}
		log := newExact(r.groups)
		for i, req := range drawTraffic(t, limit.Window, 80, jumping) {
			q := []request{{at: req.at, cost: 1}}
			log.decide(q)
			if fits, allowed := q[0].fits == 1, r.decide(q); fits != allowed {
				t.Fatalf("%v: request %d: got %v from the exact log, want %v as from the rule", limit, i, fits, allowed)
			}
		}
	})
}

// If one line has a time of tomorrow and the traffic continues today, the unit is moved back to today, as in the rule,
// and later units do not accumulate until tomorrow.
func TestClockJump(t *testing.T) {
	for _, text := range []string{"2/1m sliding-log", "2/1m fixed-window", "2/1m overlap=whole"} {
		reqs := []testRequest{{origin + 24*hour, "a", 1}}
		for i := range rule.Micros(100) {
			reqs = append(reqs, testRequest{origin + i*2*minute, "a", 1})
		}
		found := find(t, Options{Limits: []slidegate.Limit{slidegate.MustParseLimit(text)}}, reqs)
		got := found.Outcome.Limits[0]
		if found.Outcome.Refused != 0 || got.WrongAdmitted != 0 || got.WrongRefused != 0 {
			t.Errorf("%s: got %+v, want all admitted and none wrong", text, got)
		}
		if want := (Highest{Units: 2, Key: "a", At: origin}); got.Highest != want {
			t.Errorf("%s: got highest %+v, want %+v", text, got.Highest, want)
		}
	}
}

// The boundary of a fixed window: 3 units at the end of one window, 3 at the beginning of the next.
func TestMeasuresByHand(t *testing.T) {
	limit := slidegate.MustParseLimit("3/1m fixed-window")
	reqs := []testRequest{
		{origin + 59*second, "a", 3},  // an exact log then has 3, until 119s
		{origin + 60*second, "a", 2},  // it would refuse this
		{origin + 61*second, "a", 1},  // and this
		{origin + 61*second, "b", 4},  // more than the quota: refused by both
		{origin + 62*second, "a", 1},  // refused by both
		{origin + 119*second, "a", 1}, // the log's 3 are exactly a window old and gone, so it admits; the window is full
		{origin + 120*second, "a", 3}, // the log has 1, and 3 do not fit with it
		{origin + 180*second, "a", 1}, // the log's 1 is gone
	}
	got := find(t, Options{Limits: []slidegate.Limit{limit}}, reqs).Outcome.Limits[0]
	want := LimitOutcome{
		Limit: "3/1m fixed-window", Quota: 3, Window: minute, Refused: 3,
		Highest:       Highest{Units: 6, Key: "a", At: origin + 61*second},
		WrongAdmitted: 3, WrongRefused: 1,
		LiveKeys: 1, StateBytes: 16,
	}
	if got != want {
		t.Errorf("got %+v, want\n%+v", got, want)
	}

	// Half a window after 4 units, a weighted counter still counts 2 of them where the log has none.
	limit = slidegate.MustParseLimit("4/1m sliding-window")
	reqs = []testRequest{
		{origin, "a", 4},
		{origin + 90*second, "a", 3}, // 2 + 3: refused, though all 4 units are gone
		{origin + 90*second, "a", 2}, // the log, which admitted the 3, would refuse this
	}
	got = find(t, Options{Limits: []slidegate.Limit{limit}}, reqs).Outcome.Limits[0]
	want = LimitOutcome{
		Limit: "4/1m sliding-window", Quota: 4, Window: minute, Refused: 1,
		Highest: Highest{Units: 4, Key: "a", At: origin}, WrongAdmitted: 1, WrongRefused: 1,
		LiveKeys: 1, StateBytes: 24,
	}
	if got != want {
		t.Errorf("got %+v, want\n%+v", got, want)
	}
}

// Units charged by refusals count in the exact log too, and a cost above the quota is never charged.
func TestMeasuresOfCountedRefusals(t *testing.T) {
	limit := slidegate.MustParseLimit("2/1m sliding-log count-refused")
	reqs := []testRequest{
		{origin, "a", 2},
		{origin + 10*second, "a", 3},  // above the quota: refused, not charged
		{origin + 30*second, "a", 1},  // refused and charged: the log holds one unit of each
		{origin + 60*second, "a", 1},  // the first is gone, the refused one counts: 1 fits
		{origin + 60*second, "a", 0},  // a peek
		{origin + 89*second, "a", 1},  // refused, charged over the refused one
		{origin + 120*second, "a", 2}, // 2 do not fit with the last refusal; charged
		{origin + 180*second, "a", 2},
	}
	got := find(t, Options{Limits: []slidegate.Limit{limit}}, reqs).Outcome.Limits[0]
	want := LimitOutcome{
		Limit: "2/1m sliding-log count-refused", Quota: 2, Window: minute, Refused: 4,
		Highest:  Highest{Units: 2, Key: "a", At: origin},
		LiveKeys: 1, StateBytes: 16,
	}
	if got != want {
		t.Errorf("got %+v, want\n%+v", got, want)
	}
}

// A refusal that counts makes a full log parts, in which units count until their part has left the window.
func TestMeasuresOfALogThatBecomesParts(t *testing.T) {
	last := origin + second - 1 // the last microsecond of a part
	reqs := []testRequest{{last, "a", 100}, {last + 1, "a", 1}, {last + minute, "a", 1}}
	for text, want := range map[string]int64{"100/1m count-refused": 1, "100/1m": 0, "100/1m sliding-log count-refused": 0} {
		opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit(text)}}
		if got := find(t, opts, reqs).Outcome.Limits[0]; got.WrongRefused != want || got.Refused != 1+want {
			t.Errorf("%s: got %d refused, %d of them wrongly, want %d and %d", text, got.Refused, got.WrongRefused, 1+want, want)
		}
	}
}
