package rule

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Invalid limits are rejected, with errors that say what to do.

func TestInvalidLimits(t *testing.T) {
	const tooMany = MaxQuota + 1
	for _, wrong := range []struct {
		limit Limit
		field string
		want  string
	}{
		{Limit{}, "quota", "must be 1 to 9007199254740991, not 0"},
		{Limit{Quota: -1, Window: second}, "quota", "not -1"},
		{Limit{Quota: tooMany, Window: second}, "quota", "not 9007199254740992"},
		{Limit{Quota: 1}, "window", "must be 1ms to 5 years"},
		{Limit{Quota: 1, Window: -second}, "window", "not -1000000us"},
		{Limit{Quota: 1, Window: minWindow - 1}, "window", "not 999us"},
		{Limit{Quota: 1, Window: MaxWindow + 1}, "window", "(43920h)"},
		{Limit{Algorithm: 6, Quota: 1, Window: second}, "algorithm", "unknown value 6"},
		{Limit{Overlap: 3, Quota: 1, Window: second}, "overlap", "unknown value 3"},
		{Limit{Anchor: 2, Quota: 1, Window: second}, "anchor", "unknown value 2"},
		{Limit{Segments: -1, Quota: 1, Window: second}, "segments", "must be 1 to 64, not -1"},
		{Limit{Segments: 65, Quota: 1, Window: 65 * second}, "segments", "must be 1 to 64, not 65"},
		{Limit{Segments: 7, Quota: 1, Window: second}, "segments", "use 5 or 8 segments, or a window of 1000006us"},
		{Limit{Segments: 64, Quota: 1, Window: 1001}, "segments", "use 13 segments, or a window of 1024us"}, // 7 * 11 * 13
		{Limit{Segments: 64, Quota: 1, Window: 1009}, "segments", "use 1 segments, or a window of 1024us"},  // a prime
		{Limit{Segments: 7, Quota: 1, Window: MaxWindow}, "segments", "or a window of 158111999999996us"},   // a longer one would be invalid
		{Limit{Algorithm: SlidingLog, Quota: 10_001, Window: second}, "quota", "at most 10000, not 10001; sliding-window with overlap whole"},
		{Limit{Algorithm: SlidingLog, Quota: 1, Window: second, Segments: 2}, "segments", "not to sliding-log"},
		{Limit{Algorithm: SlidingLog, Quota: 1, Window: second, Overlap: OverlapWhole}, "overlap", "whole applies to sliding-window only"},
		{Limit{Algorithm: SlidingLog, Quota: 1, Window: second, Anchor: AnchorFirst}, "anchor", "first applies to sliding-window and fixed-window"},
		{Limit{Algorithm: SlidingLog, Quota: 1, Window: second, Burst: 1}, "burst", "token-bucket only, not to sliding-log"},
		{Limit{Algorithm: FixedWindow, Quota: 1, Window: second, Segments: 60}, "segments", "not to fixed-window"},
		{Limit{Algorithm: FixedWindow, Quota: 1, Window: second, Segments: -1}, "segments", "not to fixed-window"},
		{Limit{Algorithm: FixedWindow, Quota: 1, Window: second, Overlap: OverlapDown}, "overlap", "leave it out"},
		{Limit{Algorithm: FixedWindow, Quota: 1, Window: second, Burst: 1}, "burst", "leave it out"},
		{Limit{Quota: 1, Window: second, Burst: 1}, "burst", "leave it out, or name token-bucket"},
		{Limit{Quota: 101, Window: 1009, Segments: 1, Burst: 1}, "burst", "not to sliding-window"},
		{Limit{Quota: 101, Window: 1009}, "window", "1009us does not divide into 50 to 60 parts of whole microseconds; use a window in whole milliseconds"},
		{Limit{Quota: 1, Window: second, Lease: true}, "lease", "segments=4"},
		{Limit{Algorithm: TokenBucket, Quota: 1, Window: second, Burst: -1}, "burst", "must be 1 to 9007199254740991, not -1"},
		{Limit{Algorithm: TokenBucket, Quota: 1, Window: second, Burst: tooMany}, "burst", "not 9007199254740992"},
		{Limit{Algorithm: TokenBucket, Quota: 1, Window: second, Anchor: AnchorFirst}, "anchor", "not to token-bucket"},
		{Limit{Algorithm: TokenBucket, Quota: 1, Window: second, Segments: 2}, "segments", "not to token-bucket"},
		{Limit{Algorithm: TokenBucket, Quota: 1, Window: MaxWindow, Burst: 2}, "burst", "more than five years to fill"},
		{Limit{Algorithm: TokenBucket, Quota: 1, Window: 1000, Burst: MaxQuota}, "burst", "a smaller burst or a larger quota"},
		{Limit{Algorithm: InFlight, Quota: 1}, "ttl", "must be 1ms to 5 years"},
		{Limit{Algorithm: InFlight, Quota: 10_001, Window: second}, "quota", "stores every slot, so it must be at most 10000, not 10001"},
		{Limit{Algorithm: InFlight, Quota: 1, Window: second, CountRefused: true}, "count_refused", "leave it out"},
		{Limit{Algorithm: InFlight, Quota: 1, Window: second, Anchor: AnchorFirst}, "anchor", "not to in-flight"},
		{Limit{Calendar: 5, Quota: 1}, "calendar", "unknown value 5"},
		{Limit{Calendar: Month, Quota: 1, Zone: "Mars/Olympus"}, "zone", `"Mars/Olympus" is not a time zone`},
		{Limit{Calendar: Month, Quota: 1, Zone: "Local"}, "zone", "Local differs between machines"},
		{Limit{Calendar: Month, Quota: 1, Zone: "../UTC"}, "zone", "not a time zone"},
		{Limit{Calendar: Day, Quota: 1, Window: 24 * 60 * minute}, "window", "leave it out"},
		{Limit{Calendar: Day, Quota: 1, Anchor: AnchorFirst}, "anchor", "leave it out"},
		{Limit{Calendar: Day, Quota: 1, Segments: 2}, "segments", "not to fixed-window"},
		{Limit{Algorithm: SlidingLog, Calendar: Day, Quota: 1}, "algorithm", "are fixed-window, not sliding-log"},
		{Limit{Quota: 1, Window: second, Zone: "UTC"}, "zone", "write, for example, 100/day zone=UTC"},
	} {
		got, err := wrong.limit.Normalize()
		switch {
		case err == nil:
			t.Errorf("%+v: got no error", wrong.limit)
		case !errors.Is(err, ErrLimit):
			t.Errorf("%+v: got %v, want an ErrLimit", wrong.limit, err)
		case !strings.HasPrefix(err.Error(), ErrLimit.Error()+": "+wrong.field+": ") || !strings.Contains(err.Error(), wrong.want):
			t.Errorf("%+v: want an error about %s with %q, got %q", wrong.limit, wrong.field, wrong.want, err)
		case got != Limit{}:
			t.Errorf("%+v: got the limit %+v along with an error", wrong.limit, got)
		}
	}
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct{ given, want Limit }{
		// Without an algorithm: a hard cap, and a window if one of its options is set.
		{Limit{Quota: 5, Window: second}, Limit{Quota: 5, Window: second, Segments: 50, Overlap: OverlapWhole}},
		{Limit{Quota: 100, Window: second}, Limit{Quota: 100, Window: second, Segments: 50, Overlap: OverlapWhole}},
		{Limit{Quota: 100, Window: second, CountRefused: true}, Limit{Quota: 100, Window: second, Segments: 50, Overlap: OverlapWhole, CountRefused: true}},
		{Limit{Quota: 101, Window: minute}, Limit{Quota: 101, Window: minute, Segments: 60, Overlap: OverlapWhole}},
		{Limit{Quota: 101, Window: 7 * second}, Limit{Quota: 101, Window: 7 * second, Segments: 56, Overlap: OverlapWhole}},
		{Limit{Quota: MaxQuota, Window: MaxWindow}, Limit{Quota: MaxQuota, Window: MaxWindow, Segments: 60, Overlap: OverlapWhole}},
		{Limit{Quota: 5, Window: second, Segments: 1}, Limit{Algorithm: SlidingWindow, Quota: 5, Window: second, Segments: 1}},
		{Limit{Quota: 5, Window: second, Segments: 64}, Limit{Algorithm: SlidingWindow, Quota: 5, Window: second, Segments: 64}},
		{Limit{Quota: 5, Window: second, Overlap: OverlapWhole}, Limit{Algorithm: SlidingWindow, Quota: 5, Window: second, Segments: 1, Overlap: OverlapWhole}},
		{Limit{Quota: 5, Window: second, Anchor: AnchorFirst}, Limit{Algorithm: SlidingWindow, Quota: 5, Window: second, Segments: 1, Anchor: AnchorFirst}},
		{Limit{Quota: 5, Calendar: Month}, Limit{Algorithm: FixedWindow, Quota: 5, Calendar: Month, Window: 752 * 60 * minute, Zone: "UTC"}},
		{Limit{Quota: 500, Calendar: Day, Zone: "Europe/Berlin"},
			Limit{Algorithm: FixedWindow, Quota: 500, Calendar: Day, Window: 32 * 60 * minute, Zone: "Europe/Berlin"}},
		// With an algorithm.
		{Limit{Algorithm: SlidingWindow, Quota: 1, Window: minWindow}, Limit{Algorithm: SlidingWindow, Quota: 1, Window: minWindow, Segments: 1}},
		{Limit{Algorithm: SlidingLog, Quota: 500, Window: second, Segments: 1}, Limit{Algorithm: SlidingLog, Quota: 500, Window: second}},
		{Limit{Algorithm: FixedWindow, Quota: 5, Window: second}, Limit{Algorithm: FixedWindow, Quota: 5, Window: second}},
		{Limit{Algorithm: TokenBucket, Quota: 5, Window: second}, Limit{Algorithm: TokenBucket, Quota: 5, Window: second, Burst: 5}},
		{Limit{Algorithm: TokenBucket, Quota: 5, Window: second, Burst: 9}, Limit{Algorithm: TokenBucket, Quota: 5, Window: second, Burst: 9}},
		{Limit{Algorithm: InFlight, Quota: 5, Window: second}, Limit{Algorithm: InFlight, Quota: 5, Window: second}},
	} {
		got, err := c.given.Normalize()
		if err != nil || got != c.want {
			t.Errorf("%+v becomes %+v, %v; want %+v", c.given, got, err, c.want)
		}
		if again, err := got.Normalize(); err != nil || again != got {
			t.Errorf("%+v becomes %+v, %v the second time", got, again, err)
		}
	}
}

var numbers = regexp.MustCompile(`use (\d+)(?: or (\d+))? segments, or a window of (\d+)us`)

// When segments are rejected, the values that the error suggests are accepted, and no nearer ones would be.
func TestSuggestedSegmentsWork(t *testing.T) {
	property(t, 2_000, func(t *rapid.T) {
		l := Limit{Algorithm: SlidingWindow, Quota: 1, Segments: rapid.IntRange(2, MaxSegments).Draw(t, "segments"), Window: drawWindow(t, minWindow, MaxWindow)}
		_, err := l.Normalize()
		if err == nil {
			return
		}
		found := numbers.FindStringSubmatch(err.Error())
		if found == nil {
			t.Fatalf("%+v: got no numbers in %q", l, err)
		}
		var n [4]int64
		for i := 1; i < len(found); i++ {
			n[i], _ = strconv.ParseInt(found[i], 10, 64)
		}
		normal(t, Limit{Algorithm: SlidingWindow, Quota: 1, Segments: int(n[1]), Window: l.Window})
		if n[2] != 0 {
			normal(t, Limit{Quota: 1, Segments: int(n[2]), Window: l.Window})
		}
		normal(t, Limit{Quota: 1, Segments: l.Segments, Window: Micros(n[3])})
		if off := Micros(n[3]) - l.Window; max(off, -off) >= Micros(l.Segments) {
			t.Fatalf("%+v: a window of %d is not the nearest one", l, n[3])
		}
		next := n[2]
		if next == 0 {
			next = MaxSegments + 1
		}
		for between := n[1] + 1; between < next; between++ {
			if _, err := (Limit{Quota: 1, Segments: int(between), Window: l.Window}).Normalize(); err == nil {
				t.Fatalf("%+v: %d segments are nearer than %d and %d", l, between, n[1], n[2])
			}
		}
	})
}

// Every accepted limit decides correctly at the edges of its ranges.
func TestAcceptedLimitsWorkAtTheirEdges(t *testing.T) {
	property(t, 400, func(t *rapid.T) {
		l := drawLimit(t)
		var s State
		for _, at := range []Micros{MaxNow, 0, MaxNow} {
			for _, op := range []Op{Charge, Take, TakeUpTo, Peek, GiveBack, Settle, Renew, Reset, Take} {
				cost := l.Capacity()
				if l.Algorithm == InFlight {
					cost = 1
				}
				a, _, cost := decideStep(t, &l, &s, step{at: at, op: op, cost: cost, used: cost / 2, id: 7})
				checkAnswer(t, &l, &a)
				checkState(t, &l, &s)
				checkTimes(t, &l, &s, step{at: at, op: op}, cost, &a)
			}
		}
	})
}
