package rule

import "testing"

// Scripts for the operations other than Take: Charge, TakeUpTo, GiveBack and Reset.

func TestGiveBackWindow(t *testing.T) {
	limit := Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute, Segments: 2, Overlap: OverlapWhole}
	play(t, limit, []step{
		{at: 60 * second, cost: 3, want: allowed(7)}, // part [60s, 90s)
		{at: 90 * second, cost: 4, want: allowed(3)}, // part [90s, 120s)
		{at: 95 * second, op: GiveBack, cost: 2, back: 75 * second, want: allowed(5).granted(2)},
		{at: 95 * second, op: GiveBack, cost: 2, back: 90*second - 1, want: allowed(6).granted(1)}, // no more than was charged
		{at: 95 * second, op: GiveBack, cost: 1, back: 60 * second, want: allowed(6).granted(0)},
		{at: 95 * second, op: GiveBack, cost: 1, back: 60*second - 1, want: allowed(6).granted(0)}, // an empty part
		{at: 95 * second, op: GiveBack, cost: 0, back: 90 * second, want: allowed(6).granted(0)},
		{at: 95 * second, op: GiveBack, cost: 9, back: 90 * second, want: allowed(10).granted(4).reset(0)},
	})
	play(t, limit, []step{ // units that have left the window are not given back, and the counts have moved along
		{at: 60 * second, cost: 3, want: allowed(7)},
		{at: 90 * second, cost: 4, want: allowed(3)},
		{at: 150*second - 1, op: GiveBack, cost: 1, back: 60 * second, want: allowed(4).granted(1)},
		{at: 150 * second, op: GiveBack, cost: 1, back: 60 * second, want: allowed(6).granted(0)},
		{at: 150 * second, op: GiveBack, cost: 1, back: 119 * second, want: allowed(7).granted(1)},
		{at: 180 * second, op: GiveBack, cost: 1, back: 119 * second, want: allowed(10).granted(0)},
		{at: 1000 * second, op: GiveBack, cost: 1, back: Oldest, want: allowed(10).granted(0)},
	})
	play(t, limit, []step{ // the oldest first, up to all of them
		{at: 60 * second, cost: 3, want: allowed(7)},
		{at: 90 * second, cost: 4, want: allowed(3)},
		{at: 100 * second, op: GiveBack, cost: 4, want: allowed(7).granted(4)},
		{at: 150 * second, cost: 0, want: allowed(7)}, // the three that are left belong to the newer part
		{at: 150 * second, op: GiveBack, cost: MaxQuota, want: allowed(10).granted(3)},
	})
	play(t, limit, []step{{at: 60 * second, op: GiveBack, cost: 1, want: allowed(10).granted(0)}}) // a key never seen
}

func TestGiveBackFixedWindow(t *testing.T) {
	play(t, Limit{Algorithm: FixedWindow, Quota: 5, Window: 10 * second}, []step{
		{at: 12 * second, cost: 4, want: allowed(1)},
		{at: 13 * second, op: GiveBack, cost: 1, back: 9 * second, want: allowed(1).granted(0)},
		{at: 13 * second, op: GiveBack, cost: 1, back: 12 * second, want: allowed(2).granted(1)},
		{at: 13 * second, op: GiveBack, cost: 9, want: allowed(5).granted(3)},
		{at: 13 * second, cost: 5, want: allowed(0)},
		{at: 20 * second, op: GiveBack, cost: 1, back: 13 * second, want: allowed(5).granted(0)},
	})
}

// A part whose units were given back still defines the state's own time, and windows anchored at the first request continue
// from it.
func TestGiveBackKeepsTheAnchor(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute, Anchor: AnchorFirst}, []step{
		{at: 7 * second, cost: 4, want: allowed(6)},
		{at: 8 * second, op: GiveBack, cost: 4, back: 7 * second, want: allowed(10).granted(4)},
		{at: 60 * second, cost: 10, want: allowed(0).reset(67 * second)}, // still in the window [7s, 67s)
	})
}

func TestGiveBackLog(t *testing.T) {
	play(t, Limit{Algorithm: SlidingLog, Quota: 5, Window: 10 * second}, []step{
		{at: 1 * second, cost: 2, want: allowed(3)},
		{at: 2 * second, cost: 1, want: allowed(2)},
		{at: 3 * second, cost: 2, want: allowed(0)},
		{at: 4 * second, op: GiveBack, cost: 5, back: 2 * second, want: allowed(1).granted(1)},
		{at: 4 * second, op: GiveBack, cost: 5, back: 2 * second, want: allowed(1).granted(0)}, // no longer there
		{at: 4 * second, op: GiveBack, cost: 1, want: allowed(2).granted(1)},                   // 1s, 3s, 3s are left
		{at: 4 * second, cost: 4, want: refused(2).retry(9 * second)},                          // two more must go: those of 1s and 3s
		{at: 11*second - 1, op: GiveBack, cost: 1, back: 1 * second, want: allowed(3).granted(1)},
		{at: 11 * second, op: GiveBack, cost: 1, back: 1 * second, want: allowed(3).granted(0)},
		{at: 12 * second, op: GiveBack, cost: 1, back: 3 * second, want: allowed(4).granted(1)},
		{at: 12 * second, op: GiveBack, cost: 9, want: allowed(5).granted(1).reset(0)},
		{at: 5 * second, cost: 1, want: allowed(4).deciding(5 * second)}, // empty: the state has no time of its own any more
	})
}

func TestGiveBackBucket(t *testing.T) {
	limit := Limit{Algorithm: TokenBucket, Quota: 2, Window: 10 * second, Burst: 3}
	play(t, limit, []step{
		{at: 100 * second, op: GiveBack, cost: 1, want: allowed(3).granted(0).reset(0)}, // never seen: nothing to give back
		{at: 100 * second, cost: 3, want: allowed(0)},
		// A fifth of a unit has been refilled since, and only the other four fifths are given back.
		{at: 101 * second, op: GiveBack, cost: 1, back: 100 * second, want: allowed(1).granted(1).reset(10 * second)},
		{at: 101 * second, op: GiveBack, cost: 3, want: allowed(3).granted(2).reset(0)}, // the oldest: all that is missing
		{at: 101 * second, cost: 3, want: allowed(0)},
		{at: 106*second - 1, op: GiveBack, cost: 1, back: 101 * second, want: allowed(1).granted(1)}, // the last of it
		{at: 106 * second, op: GiveBack, cost: 1, back: 101 * second, want: allowed(1).granted(0)},   // it has been refilled already
		{at: 106 * second, op: GiveBack, cost: 1, want: allowed(2).granted(1)},
		{at: 107 * second, op: GiveBack, cost: 1, back: 120 * second, want: allowed(3).granted(1).reset(0)},
	})
	// The clock stepped back: the refill is counted up to the state's own time.
	play(t, limit, []step{
		{at: 100 * second, cost: 1, want: allowed(2)},
		{at: 105 * second, cost: 3, want: allowed(0)},
		{at: 99 * second, op: GiveBack, cost: 1, back: 100 * second, want: allowed(0).granted(0).deciding(105 * second)},
	})
	// Reserved units are given back when nearly all of them have been refilled and taken again: they must not be free
	// twice.
	play(t, Limit{Algorithm: TokenBucket, Quota: 100, Window: minute}, []step{
		{at: 60 * second, cost: 100, want: allowed(0)},
		{at: 120*second - 1, cost: 99, want: allowed(0)},
		{at: 120*second - 1, op: GiveBack, cost: 100, back: 60 * second, want: allowed(1).granted(1)},
		{at: 120*second - 1, cost: 100, want: refused(1)},
		{at: 120*second - 1, cost: 2, want: refused(1).retry(600 * milli)},
	})
}

func TestCharge(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute}, []step{
		{at: 60 * second, op: Charge, cost: 0, want: allowed(10).reset(0)},
		{at: 60 * second, op: Charge, cost: 25, want: allowed(0).reset(2 * minute)},
		// 25*covered <= 9*60s when 21.6s are covered, at 158.4s.
		{at: 61 * second, cost: 1, want: refused(0).retry(97_400 * milli)},
		{at: 61 * second, cost: 0, want: refused(0).retry(95 * second)}, // 24s: first the overdraft must be gone
		{at: 158_400 * milli, cost: 1, want: allowed(0)},
	})
	play(t, Limit{Algorithm: FixedWindow, Quota: 10, Window: minute}, []step{
		{at: 60 * second, op: Charge, cost: 25, want: allowed(0)},
		{at: 61 * second, op: GiveBack, cost: 14, want: allowed(0).granted(14)},
		{at: 61 * second, op: GiveBack, cost: 2, want: allowed(1).granted(2)},
	})
	play(t, Limit{Algorithm: SlidingLog, Quota: 3, Window: 10 * second}, []step{
		{at: 1 * second, cost: 2, want: allowed(1)},
		{at: 2 * second, op: Charge, cost: 2, want: allowed(0)}, // overwrites one of 1s
		{at: 2 * second, cost: 1, want: refused(0).retry(9 * second)},
		{at: 3 * second, op: Charge, cost: 25, want: allowed(0)}, // overwrites all
		{at: 3 * second, cost: 1, want: refused(0).retry(10 * second)},
	})
}

func TestChargeBucket(t *testing.T) {
	limit := Limit{Algorithm: TokenBucket, Quota: 2, Window: 10 * second, Burst: 3}
	play(t, limit, []step{
		{at: 100 * second, op: Charge, cost: 4, want: allowed(0).reset(20 * second)},
		{at: 100 * second, cost: 1, want: refused(0).retry(10 * second)},
		{at: 100 * second, cost: 0, want: refused(0).retry(5 * second)},
		{at: 100 * second, op: Charge, cost: 100, want: allowed(0).reset(25 * second)}, // at most a window beyond empty
		{at: 115*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 115 * second, cost: 1, want: allowed(0)},
	})
	// The clock stepped back: the charge counts as of the state's own time.
	play(t, limit, []step{
		{at: 100 * second, op: Charge, cost: 100, want: allowed(0).reset(25 * second)},
		{at: 95 * second, op: Charge, cost: 1, want: allowed(0).reset(30 * second)},
		{at: 95 * second, cost: 1, want: refused(0).retry(20 * second)},
	})
}

func TestTakeUpTo(t *testing.T) {
	for _, l := range []Limit{
		{Algorithm: SlidingWindow, Quota: 10, Window: minute}, {Algorithm: FixedWindow, Quota: 10, Window: minute},
		{Algorithm: SlidingLog, Quota: 10, Window: minute}, {Algorithm: TokenBucket, Quota: 10, Window: minute},
	} {
		play(t, l, []step{
			{at: 600 * second, op: TakeUpTo, cost: 7, want: allowed(3).granted(7)},
			{at: 600 * second, op: TakeUpTo, cost: 0, want: allowed(3).granted(0)},
			{at: 600 * second, op: TakeUpTo, cost: 7, want: allowed(0).granted(3)},
			{at: 600 * second, op: TakeUpTo, cost: 7, want: refused(0).granted(0)},
			{at: 1200 * second, op: TakeUpTo, cost: MaxQuota, want: allowed(0).granted(10)},
		})
	}
	// If nothing is left, it is a refusal of one unit: that determines RetryAfter, and what is charged if refusals count.
	play(t, Limit{Algorithm: SlidingLog, Quota: 3, Window: 10 * second, CountRefused: true}, []step{
		{at: 1 * second, cost: 1, want: allowed(2)},
		{at: 2 * second, cost: 2, want: allowed(0)},
		{at: 3 * second, op: TakeUpTo, cost: 3, want: refused(0).granted(0).retry(9 * second)}, // 2s, 2s, 3s
		{at: 12 * second, op: TakeUpTo, cost: 3, want: allowed(0).granted(2)},
	})
}

func TestReset(t *testing.T) {
	for _, l := range []Limit{
		{Algorithm: SlidingWindow, Quota: 10, Window: minute}, {Algorithm: SlidingWindow, Quota: 10, Window: minute, Segments: 3, Anchor: AnchorFirst},
		{Algorithm: FixedWindow, Quota: 10, Window: minute}, {Algorithm: SlidingLog, Quota: 10, Window: minute},
		{Algorithm: TokenBucket, Quota: 10, Window: minute},
	} {
		play(t, l, []step{
			{at: 600 * second, op: Reset, want: allowed(10).reset(0).granted(0)},
			{at: 600 * second, op: Charge, cost: 20, want: allowed(0)},
			{at: 600 * second, op: Reset, want: allowed(10).reset(0).granted(0)},
			{at: 1 * second, cost: 10, want: allowed(0).deciding(1 * second)}, // nor does it keep the time
		})
	}
}
