package replay

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests check that the suggested quota is the smallest sufficient one.

// touchedKeys counts the keys that a limit touches.
func touchedKeys(t tb, limit slidegate.Limit, reqs []testRequest) (keys int64) {
	t.Helper()
	return plainOutcome(decideAll(t, []slidegate.Limit{limit}, reqs), 0).KeysTouched
}

// mayTouch returns the largest number of keys that is at most percent of them.
func mayTouch(percent int64, reqs []testRequest) (keys int64) {
	names := map[string]bool{}
	for _, a := range reqs {
		names[a.key] = true
	}
	for (keys+1)*100 <= percent*int64(len(names)) {
		keys++
	}
	return keys
}

func TestSuggestedQuotaIsTheSmallest(t *testing.T) {
	ownTemp(t)
	property(t, 250, func(t *rapid.T) {
		limits := drawLimits(t)
		for limits[0].Algorithm == slidegate.TokenBucket {
			limits[0] = drawLimit(t, "a")
		}
		reqs := drawTraffic(t, limits[0].Window, 40, steps(rapid.IntRange(0, 2).Draw(t, "clock")))
		percent := rapid.SampledFrom([]int64{0, 0, 1, 25, 33, 34, 50, 74, 75, 99, 100}).Draw(t, "percent")
		found := find(t, Options{Limits: limits, Suggest: true, Percent: float64(percent), Top: 3}, reqs)

		allowed := mayTouch(percent, reqs)
		want := limits[0]
		for want.Quota = 1; touchedKeys(t, want, reqs) > allowed; want.Quota++ {
		}
		got := found.Suggestion
		if got.Percent != float64(percent) || len(got.Outcome.Limits) != 1 || got.Outcome.Limits[0].Limit != want.String() {
			t.Fatalf("%v for %d%%: got %+v, want %v\n%+v", limits[0], percent, got.Outcome.Limits, want, reqs)
		}
		alone := find(t, Options{Limits: []slidegate.Limit{want}, Top: 3}, reqs)
		if !reflect.DeepEqual(got.Outcome, alone.Outcome) {
			t.Fatalf("%v\n%+v, alone\n%+v", want, got.Outcome, alone.Outcome)
		}
	})
}

// For a token bucket, the suggestion is the smallest sufficient quota of the sweep for this limit alone, whatever other
// limits there are.
func TestSuggestedBucketIsTheSmallestOfTheSweep(t *testing.T) {
	ownTemp(t)
	property(t, 200, func(t *rapid.T) {
		limits := drawLimits(t)
		limits[0] = slidegate.Limit{
			Name: "a", Quota: 5, Window: limits[0].Window, CountRefused: limits[0].CountRefused, Algorithm: slidegate.TokenBucket,
			Burst: rapid.SampledFrom([]int64{0, 5, 9}).Draw(t, "burst"),
		}
		reqs := drawTraffic(t, limits[0].Window, 40, around)
		percent := rapid.SampledFrom([]int64{0, 25, 50, 75}).Draw(t, "percent")
		opts := Options{Limits: limits, Suggest: true, Percent: float64(percent), Sweep: []int64{1, 2, 4, 7, 11, 16}}
		found, err := Run(context.Background(), &list{rest: reqs}, opts)
		allowed := mayTouch(percent, reqs)
		for _, quota := range opts.Sweep {
			want := limits[0]
			want.Quota = quota
			if want.Burst == 5 {
				want.Burst = 0 // a bucket as large as its quota stays so
			}
			if touchedKeys(t, want, reqs) > allowed {
				continue
			}
			if err != nil || found.Suggestion.Outcome.Limits[0].Limit != want.String() {
				t.Fatalf("%v: got %v, %+v; want %v", limits, err, found.Suggestion, want)
			}
			return
		}
		if found == nil || found.Suggestion != nil || err == nil ||
			!strings.HasPrefix(err.Error(), "replay: Suggest: every quota of the sweep touches more than ") {
			t.Fatalf("%v: got %+v, %v; want an error that no quota of the sweep is sufficient", limits, found.Suggestion, err)
		}
	})
}

// If the sufficient quota is too large for a log, there is an error, and the other findings are complete.
func TestSuggestedLogIsTooLarge(t *testing.T) {
	ownTemp(t)
	var reqs []testRequest
	for i := range int64(3) {
		reqs = append(reqs, testRequest{origin + rule.Micros(i), "a", 4_000}, testRequest{origin + rule.Micros(i), "b", 1})
	}
	opts := Options{
		Limits:  []slidegate.Limit{{Quota: 100, Window: time.Minute, Algorithm: slidegate.SlidingLog}},
		Suggest: true,
	}
	found, err := Run(context.Background(), &list{rest: reqs}, opts)
	want := "replay: Suggest: the quota would be 12000: invalid limit: quota: a sliding-log stores every unit, so it must be " +
		"at most 10000, not 12000; sliding-window with overlap whole gives the same hard cap in constant memory"
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	if found == nil || found.Suggestion != nil || found.Outcome.Refused != 3 || found.Interrupted {
		t.Fatalf("got %+v, want 3 refused and no suggestion", found)
	}
	opts.Percent = 50 // of 2 keys: a may be touched, and b needs 3
	if got := find(t, opts, reqs).Suggestion.Outcome.Limits[0].Limit; got != "3/1m sliding-log" {
		t.Errorf("for half of the keys: got %s, want 3/1m sliding-log", got)
	}
}

// With weighted windows: 4 units in one minute and 3 half-way through the next.
func TestSuggestedByHand(t *testing.T) {
	ownTemp(t)
	reqs := []testRequest{{origin, "a", 4}, {origin + 90*second, "a", 3}, {origin, "b", 1}, {origin + 61*second, "c", 0}}
	for text, want := range map[string]string{
		"1/1m":                                "4/1m",
		"1/1m sliding-window":                 "5/1m sliding-window", // 4/2 + 3
		"1/1m overlap=whole":                  "7/1m overlap=whole",
		"1/1m segments=2":                     "4/1m segments=2", // the first half minute is gone
		"1/1m sliding-log":                    "4/1m sliding-log",
		"1/1m fixed-window":                   "4/1m fixed-window",
		"1/1m fixed-window count-refused":     "4/1m fixed-window count-refused",
		"9007199254740991/1m count-refused":   "4/1m count-refused",
		"1/1m anchor=first name=\"per user\"": "5/1m anchor=first name=\"per user\"",
	} {
		opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit(text)}, Suggest: true}
		if got := find(t, opts, reqs).Suggestion.Outcome.Limits[0].Limit; got != want {
			t.Errorf("%s: got suggestion %s, want %s", text, got, want)
		}
		opts.Percent = 34 // one of three keys
		if got := find(t, opts, reqs).Suggestion.Outcome.Limits[0].Quota; got != 1 {
			t.Errorf("%s, for a third of the keys: got quota %d, want 1", text, got)
		}
	}
}

// For late requests that are decided as they come, more of the last minute counts than for the requests decided before:
// even a peek can be refused, and a quota that touches no key must be large enough for it.
func TestSuggestedForALatePeek(t *testing.T) {
	ownTemp(t)
	reqs := []testRequest{
		{origin, "a", 60},
		{origin + 119*second, "a", 60}, // a sixtieth of the first 60 still counts: 61
		{origin + 60*second, "a", 0},   // all of them do: 120
	}
	opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("1/1m sliding-window")}, Suggest: true}
	got := find(t, opts, reqs).Suggestion.Outcome
	if got.Limits[0].Limit != "120/1m sliding-window" || got.KeysTouched != 0 {
		t.Errorf("got suggestion %s, which touches %d keys, want 120/1m sliding-window, which touches none", got.Limits[0].Limit, got.KeysTouched)
	}
}

func TestTouchable(t *testing.T) {
	for _, c := range []struct {
		percent float64
		keys    int
		want    int
	}{
		{0, 1_000_000, 0}, {100, 7, 7}, {100, 1_000_003, 1_000_003}, {50, 3, 1}, {1, 99, 0}, {1, 100, 1},
		{0.1, 1000, 1}, {0.3, 1000, 3}, {29, 100, 29}, {57, 100, 57}, {33.333, 3, 0}, {33.34, 3, 1}, {1.1, 1000, 11}, {100, 0, 0},
	} {
		if got := maxTouched(c.percent, c.keys); got != c.want {
			t.Errorf("%v%% of %d keys: got %d, want %d", c.percent, c.keys, got, c.want)
		}
	}
	for keys := range 2_000 { // in tenths of a percent, which floats cannot hold
		for tenths := range 1_001 {
			if got := maxTouched(float64(tenths)/10, keys); got != tenths*keys/1000 {
				t.Fatalf("%v%% of %d keys: got %d, want %d", float64(tenths)/10, keys, got, tenths*keys/1000)
			}
		}
	}
}

func TestSmallestQuotaOfPeaks(t *testing.T) {
	peaks := []int64{3, 9, 0, 9, 5}
	for allowed, want := range []int64{9, 9, 5, 3, 1, 1, 1} {
		if got := smallestOf(peaks, allowed); got != want {
			t.Errorf("for %d keys: got %d, want %d", allowed, got, want)
		}
	}
	if want := []int64{3, 9, 0, 9, 5}; !slices.Equal(peaks, want) {
		t.Errorf("got peaks changed to %v", peaks)
	}
}
