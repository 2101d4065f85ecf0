package rule

import "testing"

// Scripts for the window algorithms. All expectations were worked out by hand from the rule used = whole parts +
// round(oldest part * covered share of it).

func TestOverlapUp(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute}, []step{
		// Ten units in the window [60s, 120s). They begin to fade at 120s and have faded at 180s.
		{at: 60 * second, cost: 10, want: allowed(0).reset(120 * second)},
		// Nine must be left: 10*covered/60s <= 9 when 54s are covered, at 126s.
		{at: 61 * second, cost: 1, want: refused(0).retry(65 * second).reset(119 * second)},
		// The clock stepped back: the window does not.
		{at: 30 * second, cost: 1, want: refused(0).retry(96 * second).reset(150 * second).deciding(60 * second)},
		{at: 126*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 126 * second, cost: 1, want: allowed(0).reset(114 * second)},
		// Half of ten, plus one: 4 are left. A microsecond later 4.99.. still rounds up to 5.
		{at: 150 * second, cost: 0, want: allowed(4)},
		{at: 150*second + 1, op: Peek, cost: 5, want: refused(4).retry(6*second - 1)},
		{at: 156 * second, cost: 5, want: allowed(0)},
		// Six are in the previous window now; 40 of its 60 seconds are covered, which makes 4.
		{at: 200 * second, cost: 7, want: refused(6).retry(10 * second).reset(40 * second)},
		// Two windows later nothing is left of it. A cost above the quota is never admitted, and is not charged.
		{at: 300 * second, cost: 11, want: refused(10).retry(Never).reset(0)},
		{at: 300 * second, cost: 10, want: allowed(0)},
	})
}

func TestOverlapDown(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute, Overlap: OverlapDown}, []step{
		// Nothing is left of ten once 10*covered < 60s, which is when 5.999999s are covered.
		{at: 60 * second, cost: 10, want: allowed(0).reset(114*second + 1)},
		// One fits once 10*covered < 10*60s: a microsecond into the next window.
		{at: 61 * second, cost: 1, want: refused(0).retry(59*second + 1)},
		{at: 120 * second, cost: 1, want: refused(0).retry(1)},
		{at: 120*second + 1, cost: 1, want: allowed(0)},
		{at: 150 * second, cost: 0, want: allowed(4)},
		{at: 150*second + 1, cost: 0, want: allowed(5)}, // 4.99.. rounds down to 4
	})
}

func TestOverlapWhole(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute, Overlap: OverlapWhole}, []step{
		{at: 119 * second, cost: 10, want: allowed(0).reset(61 * second)},
		{at: 150 * second, cost: 1, want: refused(0).retry(30 * second)},
		{at: 180*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 180 * second, cost: 10, want: allowed(0)},
	})
}

func TestSegments(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 8, Window: minute, Segments: 4}, []step{
		// Two units in each of four parts of 15 seconds.
		{at: 60 * second, cost: 2, want: allowed(6).reset(75 * second)},
		{at: 75 * second, cost: 2, want: allowed(4).reset(75 * second)},
		{at: 90 * second, cost: 2, want: allowed(2)},
		{at: 105 * second, cost: 2, want: allowed(0)},
		// From 120s on, the part of 60s fades: one of its two has faded when 7.5s of it are covered, both at 135s.
		{at: 110 * second, cost: 1, want: refused(0).retry(17_500 * milli).reset(70 * second)},
		{at: 110 * second, cost: 2, want: refused(0).retry(25 * second)},
		// For four, both of the part of 75s must go as well: at 150s.
		{at: 110 * second, cost: 4, want: refused(0).retry(40 * second)},
		{at: 127_500 * milli, cost: 1, want: allowed(0)},
		// 1 + 2 + 2 whole, and 2 of the part of 75s, which is still covered in full.
		{at: 135 * second, cost: 2, want: refused(1).retry(7_500 * milli).reset(60 * second)},
		{at: 135 * second, cost: 8, want: refused(1).retry(60 * second)},
		{at: 195*second - 1, op: Peek, cost: 8, want: refused(7).retry(1)},
		{at: 195 * second, cost: 8, want: allowed(0)},
	})
}

func TestSegmentsWhole(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 3, Window: 3 * second, Segments: 3, Overlap: OverlapWhole}, []step{
		{at: 10*second + 999_999, cost: 2, want: allowed(1).reset(3*second + 1)}, // part [10s, 11s)
		{at: 12 * second, cost: 1, want: allowed(0).reset(4 * second)},           // part [12s, 13s)
		{at: 13*second + 5, cost: 2, want: refused(0).retry(second - 5)},         // [10s, 11s) counts until 14s
		{at: 14*second - 1, cost: 2, want: refused(0).retry(1)},
		{at: 14 * second, cost: 3, want: refused(2).retry(2 * second)},
		{at: 14 * second, cost: 2, want: allowed(0)},
	})
}

func TestAnchorFirst(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute, Anchor: AnchorFirst}, []step{
		{at: 5 * second, cost: 11, want: refused(10).retry(Never)}, // refused: stores no start
		{at: 6 * second, cost: 0, want: allowed(10)},               // a peek: stores none either
		{at: 7 * second, cost: 4, want: allowed(6).reset(2 * minute)},
		// From 67s on it fades; 3 of 4 are left when 45s are covered, at 82s.
		{at: 67*second - 1, cost: 7, want: refused(6).retry(15*second + 1)},
		{at: 67 * second, cost: 6, want: allowed(0).reset(2 * minute)},
		{at: 97 * second, cost: 0, want: allowed(2)}, // half of 4, and 6
		// Its last microsecond still counts as one.
		{at: 187*second - 1, op: Peek, cost: 10, want: refused(9).retry(1)},
		// After two idle windows, the next request is a first one again.
		{at: 200 * second, cost: 10, want: allowed(0).reset(2 * minute)},
		{at: 266*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 266 * second, cost: 1, want: allowed(0)},
	})
}

func TestAnchorFirstWithSegments(t *testing.T) {
	// Three parts of 1s, and one more that the window covers partly: everything has expired 4s after the part's start.
	play(t, Limit{Algorithm: SlidingWindow, Quota: 6, Window: 3 * second, Segments: 3, Anchor: AnchorFirst, Overlap: OverlapDown}, []step{
		{at: 500 * milli, cost: 3, want: allowed(3)},                     // part [0.5s, 1.5s)
		{at: 1_499_999, cost: 2, want: allowed(1)},                       // the same part
		{at: 1_500_000, cost: 1, want: allowed(0).reset(3*second + 1)},   // part [1.5s, 2.5s): less than one as soon as it fades
		{at: 3_500_000, cost: 1, want: refused(0).retry(1)},              // 5*covered/1s is below 5 immediately
		{at: 3_700_000, cost: 1, want: allowed(0)},                       // 5*0.8 = 4, and 1: 5 are used
		{at: 3_700_001, cost: 1, want: allowed(0)},                       // 5*0.799999 rounds down to 3: 3 + 1 + 1 are used
		{at: 3_900_000, op: Peek, cost: 1, want: refused(0).retry(1)},    // 5*0.6 = 3, and 1 and 2: 6 are used
		{at: 8_000_000, op: Peek, cost: 6, want: allowed(6)},             // [3.5s, 4.5s) expired at 7.5s
		{at: 8_000_000, cost: 6, want: allowed(0).reset(3_833_334)},      // 6*covered < 1s once 166666us of it are covered
		{at: 11_000_000, op: Peek, cost: 1, want: refused(0).retry(1)},   // the part [8s, 9s) is about to fade
		{at: 11_000_001, cost: 1, want: allowed(0)},                      // and now it fades
		{at: 11_833_334, op: Peek, cost: 5, want: allowed(5)},            // the unit of 11.000001s is left
		{at: 11_833_333, op: Peek, cost: 5, want: refused(4).retry(1)},   // a microsecond earlier one more
		{at: 15_000_000, op: Peek, cost: 6, want: allowed(6).reset(0)},   // nothing
		{at: 14_000_000, op: Peek, cost: 6, want: refused(5).retry(1)},   // [11s, 12s) is covered in full
		{at: 14_000_001, op: Peek, cost: 6, want: allowed(6).reset(0)},   // less than one counts as nothing
		{at: 16_000_000, cost: 6, want: allowed(0).deciding(16_000_000)}, // a first request again
	})
}

func TestCountRefused(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 3, Window: minute, Overlap: OverlapDown, CountRefused: true}, []step{
		{at: 60 * second, cost: 3, want: allowed(0)},
		// The refusal is charged: four. 4*covered < 3*60s once 44.999999s are covered; less than one is left at 14.999999s.
		{at: 61 * second, cost: 1, want: refused(0).retry(74*second + 1).reset(104*second + 1)},
		// A cost that is never admitted is never charged, nor is a peek, nor a cost of 0; a cost of 0 is refused while over
		// the quota.
		{at: 62 * second, cost: 4, want: refused(0).retry(Never).reset(103*second + 1)},
		{at: 62 * second, op: Peek, cost: 1, want: refused(0).retry(73*second + 1)},
		{at: 62 * second, cost: 0, want: refused(0).retry(58*second + 1)},
		{at: 135*second + 1, cost: 1, want: allowed(0)},
		// 4*30/60 = 2, plus 1: a refusal makes that 1 + 2 in the current window.
		{at: 150 * second, cost: 2, want: refused(0)},
		// In [180s, 240s) those three are the previous window: 3*covered/60s.
		{at: 180 * second, op: Peek, cost: 0, want: allowed(0)},
		{at: 200*second + 1, cost: 2, want: allowed(0)}, // 3*39.999999/60 rounds down to 1
	})
}

// A refusal of cost 0 charges nothing and does not advance the window, as the clock that then steps back shows.
func TestCountRefusedOfCostZero(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 3, Window: minute, CountRefused: true}, []step{
		{at: 60 * second, op: Charge, cost: 12, want: allowed(0)},
		{at: 130 * second, cost: 0, want: refused(0).retry(35 * second)}, // 12*covered <= 3*60s at 165s
		{at: 110 * second, cost: 0, want: refused(0).deciding(110 * second)},
	})
}

func TestCountRefusedKeepsHammerersOut(t *testing.T) {
	script := []step{{at: 60 * second, cost: 2, want: allowed(0)}}
	for at := 61 * second; at < 600*second; at += second {
		script = append(script, step{at: at, cost: 1, want: refused(0)})
	}
	play(t, Limit{Algorithm: SlidingWindow, Quota: 2, Window: minute, CountRefused: true, Overlap: OverlapWhole}, script)
}

func TestFixedWindow(t *testing.T) {
	play(t, Limit{Algorithm: FixedWindow, Quota: 5, Window: 10 * second}, []step{
		{at: 12 * second, cost: 4, want: allowed(1).reset(8 * second)},
		{at: 19 * second, cost: 2, want: refused(1).retry(second)},
		{at: 5 * second, cost: 2, want: refused(1).retry(15 * second).deciding(10 * second)},
		{at: 20*second - 1, cost: 1, want: allowed(0).reset(1)},
		{at: 20 * second, cost: 5, want: allowed(0)}, // ten within a microsecond: a fixed window doubles at the edge by design
		{at: 20 * second, cost: 6, want: refused(0).retry(Never)},
	})
}

func TestFixedWindowAnchorFirst(t *testing.T) {
	play(t, Limit{Algorithm: FixedWindow, Quota: 5, Window: 10 * second, Anchor: AnchorFirst}, []step{
		{at: 12 * second, cost: 5, want: allowed(0).reset(10 * second)},
		{at: 22*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 25 * second, cost: 1, want: allowed(4).reset(10 * second)}, // begins at 25s, not at 22s
		{at: 34 * second, cost: 5, want: refused(4).retry(second)},
		{at: 35 * second, cost: 5, want: allowed(0)},
	})
}

func TestFixedWindowCountRefused(t *testing.T) {
	play(t, Limit{Algorithm: FixedWindow, Quota: 5, Window: 10 * second, CountRefused: true}, []step{
		{at: 12 * second, cost: 3, want: allowed(2)},
		{at: 13 * second, cost: 3, want: refused(0).retry(7 * second)}, // charged: six
		{at: 13 * second, cost: 1, want: refused(0).retry(7 * second)},
		{at: 20 * second, cost: 3, want: allowed(2)},
	})
}

func TestCountsSaturate(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: MaxQuota, Window: minute, CountRefused: true}, []step{
		{at: 60 * second, cost: MaxQuota, want: allowed(0).reset(2 * minute)},
		{at: 60 * second, cost: MaxQuota, want: refused(0).retry(2 * minute)}, // saturated: the count stays what it was
		{at: 60 * second, op: Charge, cost: MaxQuota, want: allowed(0).reset(2 * minute)},
		// A unit is free as soon as MaxQuota*covered <= (MaxQuota-1)*60s: after one microsecond, because a unit is far
		// shorter.
		{at: 120 * second, op: Peek, cost: 1, want: refused(0).retry(1)},
		// Half of 2^53-1 rounds up to 2^52.
		{at: 150 * second, cost: 1<<52 - 1, want: allowed(0)},
	})
}
