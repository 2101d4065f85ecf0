package replay

import (
	"reflect"
	"slices"
	"testing"

	"github.com/slidegate/slidegate"
	"pgregory.net/rapid"
)

// These tests check that every row of a comparison is the outcome of a replay with that algorithm.

// rows are the expected limits of each algorithm, written out.
var rows = map[string]slidegate.Limit{
	"default":                  {},
	"segments=1":               {Segments: 1},
	"segments=10":              {Segments: 10},
	"segments=1 overlap=whole": {Segments: 1, Overlap: slidegate.OverlapWhole},
	"sliding-log":              {Algorithm: slidegate.SlidingLog},
	"fixed-window":             {Algorithm: slidegate.FixedWindow},
	"token-bucket":             {Algorithm: slidegate.TokenBucket},
}

func TestComparedRowsAreSeparateRuns(t *testing.T) {
	property(t, 100, func(t *rapid.T) {
		limits := drawLimits(t)
		reqs := drawTraffic(t, limits[0].Window, 60, around)
		found := find(t, Options{Limits: limits, Compare: true, Top: 3}, reqs)
		if len(found.Compare) != len(rows) || found.NotCompared != nil {
			t.Fatalf("got %d rows, omitted %v", len(found.Compare), found.NotCompared)
		}
		for _, got := range found.Compare {
			var those []slidegate.Limit
			for _, l := range limits {
				row := rows[got.Name]
				row.Name, row.Quota, row.Window, row.CountRefused = l.Name, l.Quota, l.Window, l.CountRefused
				if row.Segments > 0 || row.Algorithm == slidegate.FixedWindow {
					row.Anchor = l.Anchor
				}
				those = append(those, row)
			}
			want := find(t, Options{Limits: those}, reqs).Outcome
			want.Name = got.Name
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%v: got\n%+v, want as alone\n%+v", limits, got, want)
			}
		}
	})
}

func TestOmissions(t *testing.T) {
	reqs := []testRequest{{origin, "a", 1}}
	names := func(all []Outcome) (names []string) {
		for _, o := range all {
			names = append(names, o.Name)
		}
		return names
	}
	found := find(t, Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("10000/1m"), slidegate.MustParseLimit("10001/1h")}, Compare: true}, reqs)
	if got, want := names(found.Compare), []string{
		"default", "segments=1", "segments=10", "segments=1 overlap=whole", "fixed-window", "token-bucket",
	}; !slices.Equal(got, want) {
		t.Errorf("got compared %v, want %v", got, want)
	}
	if want := []Omission{{"sliding-log", "invalid limit: quota: a sliding-log stores every unit, so it must be at most 10000, not 10001; " +
		"sliding-window with overlap whole gives the same hard cap in constant memory"}}; !slices.Equal(found.NotCompared, want) {
		t.Errorf("got omitted %v, want %v", found.NotCompared, want)
	}

	found = find(t, Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("5/1001us segments=1")}, Compare: true}, reqs)
	if len(found.NotCompared) != 2 || found.NotCompared[0].Name != "default" || found.NotCompared[1].Name != "segments=10" || len(found.Compare) != 5 {
		t.Errorf("1001us in 50 to 60 parts, and in 10: got omitted %v", found.NotCompared)
	}
	if found := find(t, Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("5/1s")}}, reqs); found.Compare != nil || found.NotCompared != nil {
		t.Errorf("got a comparison that was not requested: %+v", found.Compare)
	}
}
