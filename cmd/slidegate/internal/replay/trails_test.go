package replay

import (
	"slices"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests check that the curves of the worst keys are exact at every time.

// plainCurve returns the most units in the window before any time in each bucket. Counts only rise at an entry, so it is
// enough to count at the start of a bucket and at the entries in it.
func plainCurve(line *Timeline, entries []entry, window rule.Micros) []int64 {
	points := make([]int64, len(line.Buckets))
	for i := range points {
		begins := line.From + rule.Micros(i)*line.Width
		points[i] = within(entries, begins, window)
		for _, e := range entries {
			if e.at >= begins && e.at < begins+line.Width {
				points[i] = max(points[i], within(entries, e.at, window))
			}
		}
	}
	return points
}

func TestTrailsAreExact(t *testing.T) {
	ownTemp(t)
	property(t, 300, func(t *rapid.T) {
		limits := drawLimits(t)
		reqs := drawTraffic(t, limits[0].Window, 60, forward)
		trails := rapid.IntRange(1, 5).Draw(t, "trails")
		found := find(t, Options{Limits: limits, Trails: trails, Top: trails}, reqs)
		decided := decideAll(t, limits, reqs)
		if len(found.Worst) != len(found.Outcome.TopRefused) {
			t.Fatalf("got %d trails for %d keys", len(found.Worst), len(found.Outcome.TopRefused))
		}
		for i, trail := range found.Worst {
			var all, admitted []entry
			for _, v := range decided {
				if v.key != trail.Key {
					continue
				}
				all = append(all, entry{v.at, v.cost})
				if v.allowed {
					admitted = append(admitted, entry{v.at, v.cost})
				}
			}
			window := limits[0].Window.Microseconds()
			want := Trail{
				Key: found.Outcome.TopRefused[i].Key, Requests: int64(len(all)), Refused: int64(len(all) - len(admitted)),
				Requested: plainCurve(&found.Timeline, all, rule.Micros(window)), Admitted: plainCurve(&found.Timeline, admitted, rule.Micros(window)),
			}
			if trail.Key != want.Key || trail.Requests != want.Requests || trail.Refused != want.Refused ||
				!slices.Equal(trail.Requested, want.Requested) || !slices.Equal(trail.Admitted, want.Admitted) {
				t.Fatalf("%v:\n%+v, want\n%+v\n%+v", limits, trail, want, reqs)
			}
		}
	})
}

// With a clock that jumps, the curves still have one point per bucket, and no point exceeds the total.
func TestTrailsWithAnyClock(t *testing.T) {
	ownTemp(t)
	property(t, 200, func(t *rapid.T) {
		limits := drawLimits(t)
		reqs := drawTraffic(t, limits[0].Window, 60, jumping)
		found := find(t, Options{Limits: limits, Trails: 4}, reqs)
		units := found.Traffic.Units
		for _, trail := range found.Worst {
			if len(trail.Requested) != len(found.Timeline.Buckets) || len(trail.Admitted) != len(trail.Requested) {
				t.Fatalf("got %d and %d points for %d buckets", len(trail.Requested), len(trail.Admitted), len(found.Timeline.Buckets))
			}
			points := slices.Concat(trail.Requested, trail.Admitted)
			if slices.Min(points) < 0 || slices.Max(points) > units {
				t.Fatalf("got %+v of %d units", trail, units)
			}
		}
	})
}

// Three units in the first second, a fourth refused, and all gone one window later.
func TestTrailsByHand(t *testing.T) {
	ownTemp(t)
	reqs := []testRequest{
		{origin + 100*milli, "quiet", 1},
		{origin + 200*milli, "busy", 2}, {origin + 300*milli, "busy", 1}, {origin + 400*milli, "busy", 1},
		{origin + 4_000*milli, "quiet", 1}, // makes the timeline long enough to be in tenths of a second
		{origin + 9_050*milli, "quiet", 1},
	}
	found := find(t, Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("3/500ms sliding-log")}, Trails: 9}, reqs)
	if found.Timeline.Width != 100*milli || found.Timeline.From != origin+100*milli || len(found.Timeline.Buckets) != 90 {
		t.Fatalf("%d buckets of %d", len(found.Timeline.Buckets), found.Timeline.Width)
	}
	if len(found.Worst) != 1 || found.Worst[0].Key != "busy" || found.Worst[0].Requests != 3 || found.Worst[0].Refused != 1 {
		t.Fatalf("got %+v, want only busy, refused 1 of 3", found.Worst)
	}
	// The units of 0.2 s are gone at 0.7 s, of 0.3 s at 0.8 s, of 0.4 s at 0.9 s; the buckets begin at 0.1 s.
	wantRequested := append([]int64{0, 2, 3, 4, 4, 4, 2, 1}, make([]int64, 82)...)
	wantAdmitted := append([]int64{0, 2, 3, 3, 3, 3, 1, 0}, make([]int64, 82)...)
	if got := found.Worst[0]; !slices.Equal(got.Requested, wantRequested) || !slices.Equal(got.Admitted, wantAdmitted) {
		t.Errorf("got asked %v, admitted %v, want %v and %v", got.Requested[:10], got.Admitted[:10], wantRequested[:10], wantAdmitted[:10])
	}
}
