package rule

import "testing"

// These scripts are about clocks that step back or jump ahead. A time before the state's own counts as the state's own. A
// state more than a window ahead was made by a clock that had jumped: it is moved back to now with its counts, and flagged.

func TestClockStepsBack(t *testing.T) {
	// A request that read its clock early must not erase the counts of faster ones.
	play(t, Limit{Algorithm: SlidingWindow, Quota: 5, Window: minute}, []step{
		{at: 120 * second, cost: 5, want: allowed(0)},
		{at: 119 * second, cost: 1, want: refused(0).deciding(120 * second)},
		{at: 120 * second, cost: 1, want: refused(0)},
	})
	play(t, Limit{Algorithm: SlidingWindow, Quota: 5, Window: minute}, []step{
		{at: 179 * second, cost: 2, want: allowed(3).deciding(179 * second)},
		{at: 150 * second, cost: 1, want: allowed(2).deciding(150 * second)}, // still in the state's own part
		{at: 180 * second, cost: 1, want: allowed(1)},                        // 3 from before, in full
		{at: 170 * second, cost: 1, want: allowed(0).deciding(180 * second)},
		{at: 170 * second, cost: 1, want: refused(0).retry(30 * second)}, // 3*covered <= 2*60s at 200s
	})
	play(t, Limit{Algorithm: SlidingLog, Quota: 2, Window: 10 * second}, []step{
		{at: 20 * second, cost: 1, want: allowed(1)},
		{at: 15 * second, cost: 1, want: allowed(0).deciding(20 * second)}, // charged at 20s
		{at: 15 * second, cost: 1, want: refused(0).retry(15 * second)},
		{at: 30*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 30 * second, cost: 2, want: allowed(0)},
	})
	play(t, Limit{Algorithm: TokenBucket, Quota: 2, Window: 10 * second}, []step{
		{at: 100 * second, cost: 1, want: allowed(1)},
		{at: 95 * second, cost: 1, want: allowed(0).deciding(100 * second).next(10 * second).reset(15 * second)}, // charged at 100s
		{at: 90 * second, cost: 1, want: refused(0).retry(15 * second)},
		{at: 105*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 105 * second, cost: 1, want: allowed(0)},
	})
	play(t, Limit{Algorithm: InFlight, Quota: 2, Window: 10 * second}, []step{
		{at: 100 * second, cost: 1, id: 1, want: allowed(1)},
		{at: 95 * second, cost: 1, id: 2, want: allowed(0).deciding(100 * second).next(15 * second)}, // held since 100s
		{at: 95 * second, cost: 1, id: 3, want: refused(0).retry(15 * second)},
		{at: 110 * second, cost: 1, id: 3, want: allowed(1)},
	})
}

func TestClockOneWindowAheadIsKept(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute}, []step{
		{at: 130 * second, cost: 10, want: allowed(0)}, // the window [120s, 180s)
		{at: 60 * second, cost: 1, want: refused(0).deciding(120 * second).retry(126 * second)},
		{at: 60*second - 1, cost: 1, want: refused(0).moved().deciding(60*second - 1)},
	})
	play(t, Limit{Algorithm: SlidingLog, Quota: 1, Window: 10 * second}, []step{
		{at: 20 * second, cost: 1, want: allowed(0)},
		{at: 10 * second, cost: 1, want: refused(0).deciding(20 * second).retry(20 * second)},
		{at: 10*second - 1, cost: 1, want: refused(0).moved().deciding(10*second - 1).retry(10 * second)},
	})
}

func TestClockJumpedWindow(t *testing.T) {
	script := []step{
		{at: 6000 * second, cost: 10, want: allowed(0)},
		// As if charged now, in the window [60s, 120s). After the refusal the time to retry arrives: at 126s.
		{at: 65 * second, cost: 1, want: refused(0).moved().retry(61 * second).reset(115 * second)},
		{at: 66 * second, cost: 1, want: refused(0).retry(60 * second)},
		{at: 126*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 126 * second, cost: 1, want: allowed(0)},
	}
	play(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute}, script)

	play(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute, Anchor: AnchorFirst}, []step{
		{at: 6000 * second, cost: 4, want: allowed(6)},
		{at: 6070 * second, cost: 3, want: allowed(3)}, // 4 in the previous window, of which 50s are covered: 3.33, so 4
		// Moved to 65s with both counts: the previous one is covered in full again.
		{at: 65 * second, cost: 4, want: refused(3).moved().retry(15 * second)}, // 4*covered <= 3*60s at 80s
		{at: 80 * second, cost: 4, want: allowed(0)},
		{at: 125 * second, cost: 3, want: allowed(0)}, // 3 + 4 in the window [65s, 125s), now the previous one
		{at: 185 * second, cost: 7, want: allowed(0)}, // and 3 in [125s, 185s), of which all are covered
	})
	// An admission also writes it back, with its charge.
	play(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute}, []step{
		{at: 6000 * second, cost: 4, want: allowed(6)},
		{at: 60 * second, cost: 3, want: allowed(3).moved()},
		{at: 150 * second, cost: 0, want: allowed(6)}, // 7*30/60 = 3.5, so 4
	})
	play(t, Limit{Algorithm: SlidingWindow, Quota: 4, Window: 4 * second, Segments: 2, Overlap: OverlapWhole}, []step{
		{at: 6000 * second, cost: 1, want: allowed(3)},
		{at: 6002 * second, cost: 2, want: allowed(1)},
		{at: 6004 * second, cost: 1, want: allowed(0)},
		// The parts keep their order: 1 in [100s, 102s), 2 in the one before, 1 in the oldest.
		{at: 101 * second, cost: 1, want: refused(0).moved().retry(second).reset(5 * second)},
		{at: 102 * second, cost: 1, want: allowed(0)},
		{at: 103 * second, cost: 2, want: refused(0).retry(second)},
	})
}

func TestClockJumpedFixedWindow(t *testing.T) {
	play(t, Limit{Algorithm: FixedWindow, Quota: 5, Window: 10 * second}, []step{
		{at: 6000 * second, cost: 5, want: allowed(0)},
		{at: 12 * second, cost: 1, want: refused(0).moved().retry(8 * second)},
		{at: 20 * second, cost: 5, want: allowed(0)},
	})
}

func TestClockJumpedLog(t *testing.T) {
	play(t, Limit{Algorithm: SlidingLog, Quota: 3, Window: 10 * second}, []step{
		{at: 6000 * second, cost: 2, want: allowed(1)},
		{at: 6005 * second, cost: 1, want: allowed(0)},
		// Moved back by 5905s: to 95s, 95s and 100s.
		{at: 100 * second, cost: 1, want: refused(0).moved().retry(5 * second).reset(10 * second)},
		{at: 105*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 105 * second, cost: 1, want: allowed(1)},
	})
	// A peek and a cost of 0 write nothing: the next request finds the same state.
	play(t, Limit{Algorithm: SlidingLog, Quota: 3, Window: 10 * second}, []step{
		{at: 6000 * second, cost: 2, want: allowed(1)},
		{at: 100 * second, op: Peek, cost: 2, want: refused(1).moved().retry(10 * second)},
		{at: 101 * second, cost: 0, want: allowed(1).moved()},
		{at: 102 * second, cost: 1, want: allowed(0).moved()},
		{at: 103 * second, cost: 1, want: refused(0).retry(9 * second)},
	})
}

// A peek moves nothing back, so the times that it returns restart with every peek, until a request is charged or refused.
func TestClockJumpedPeekReturnsTimesFromNow(t *testing.T) {
	play(t, Limit{Algorithm: SlidingLog, Quota: 3, Window: 10 * second}, []step{
		{at: 6000 * second, cost: 2, want: allowed(1)},
		{at: 100 * second, op: Peek, cost: 2, want: refused(1).moved().retry(10 * second).reset(10 * second)},
		{at: 105 * second, op: Peek, cost: 2, want: refused(1).moved().retry(10 * second).reset(10 * second)},
		{at: 105 * second, cost: 2, want: refused(1).moved().retry(10 * second).reset(10 * second)},
		{at: 106 * second, op: Peek, cost: 2, want: refused(1).retry(9 * second).reset(9 * second)},
		{at: 115*second - 1, cost: 2, want: refused(1).retry(1).reset(1)},
		{at: 115 * second, cost: 2, want: allowed(1)},
	})
}

// Soon after the epoch, moving back reaches times before it. This happens with virtual clocks that start at 0.
func TestClockJumpedLogNearTheEpoch(t *testing.T) {
	play(t, Limit{Algorithm: SlidingLog, Quota: 3, Window: 10 * second}, []step{
		{at: 100 * second, cost: 1, want: allowed(2)},
		{at: 101 * second, cost: 1, want: allowed(1)},
		{at: 101*second + 2, cost: 1, want: allowed(0)},
		// Seen at 1.000001s, the times are -1us, 0.999999s and 1.000001s.
		{at: second + 1, op: Peek, cost: 1, want: refused(0).moved().retry(9*second - 2)},
		// Moved back to -1.000001s, -1us and 1us.
		{at: 1, cost: 1, want: refused(0).moved().retry(9*second - 2)},
		{at: 2, cost: 2, want: refused(0).retry(10*second - 3)},
		{at: 2, cost: 3, want: refused(0).retry(10*second - 1)},
		{at: 2, op: GiveBack, cost: 1, back: 1, want: allowed(1).granted(1)},
		{at: 2, op: GiveBack, cost: 1, back: -1, want: allowed(2).granted(1)},
		{at: 2, op: GiveBack, cost: 1, back: -second - 1, want: allowed(3).granted(1)},
	})
}

func TestClockJumpedBucket(t *testing.T) {
	limit := Limit{Algorithm: TokenBucket, Quota: 2, Window: 10 * second, Burst: 3}
	play(t, limit, []step{
		{at: 6000 * second, cost: 3, want: allowed(0)},
		{at: 5990 * second, cost: 1, want: refused(0).deciding(6000 * second).retry(15 * second)},
		{at: 5990*second - 1, op: Peek, cost: 1, want: refused(0).moved().retry(5 * second)},
		// Moved back to 100s, with its debt.
		{at: 100 * second, cost: 1, want: refused(0).moved().retry(5 * second).reset(15 * second)},
		{at: 105*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 105 * second, cost: 1, want: allowed(0)},
	})
	// The time until its end stays the same, whatever the limit has become.
	play(t, Limit{Algorithm: TokenBucket, Quota: 1000, Window: 10 * second, Burst: 3}, []step{
		{at: 6000 * second, cost: 3, want: allowed(0)},
		{at: 100 * second, set: quota(1), op: Peek, cost: 3, want: refused(0).moved().retry(10 * second).reset(10 * second)},
	})
	limit.CountRefused = true
	play(t, limit, []step{
		{at: 6000 * second, cost: 2, want: allowed(1)},
		{at: 100 * second, cost: 2, want: refused(0).moved().retry(10 * second).reset(15 * second)},
		{at: 105 * second, cost: 1, want: allowed(0)},
	})
}

// One unit of three was taken. However far the clock steps back, two are left; the answer is flagged if it is more than a
// window.
func TestClockStepsBackOverABucket(t *testing.T) {
	for _, back := range []struct {
		by    Micros
		flags Flags
	}{{100 * milli, 0}, {500 * milli, 0}, {second, 0}, {second + 1, ClockMoved}, {1_500 * milli, ClockMoved}, {11_500 * milli, ClockMoved}} {
		left := allowed(2)
		left.flags = back.flags
		play(t, Limit{Algorithm: TokenBucket, Quota: 10, Window: second, Burst: 3}, []step{
			{at: 100 * second, cost: 1, want: allowed(2)},
			{at: 100*second - back.by, op: Peek, cost: 2, want: left},
			{at: 100*second - back.by, op: Peek, cost: 0, want: left},
		})
	}
}

func TestClockJumpedSlots(t *testing.T) {
	play(t, Limit{Algorithm: InFlight, Quota: 2, Window: 10 * second}, []step{
		{at: 6000 * second, cost: 1, id: 1, want: allowed(1)},
		{at: 6004 * second, cost: 1, id: 2, want: allowed(0).next(6 * second)},
		// Moved back by 5904s: to 96s and 100s.
		{at: 100 * second, cost: 1, id: 3, want: refused(0).moved().retry(6 * second).reset(10 * second)},
		{at: 101 * second, op: Renew, id: 2, want: allowed(0).granted(1).next(5 * second)},
		{at: 106 * second, op: Renew, id: 1, want: refused(1).granted(0)},
	})
}

// Every operation that writes reports that the state was moved, because a metric counts it.
func TestClockJumpedIsFlaggedByEveryOperation(t *testing.T) {
	for _, l := range []Limit{
		{Algorithm: SlidingWindow, Quota: 3, Window: 10 * second},
		{Algorithm: FixedWindow, Quota: 3, Window: 10 * second},
		{Algorithm: SlidingLog, Quota: 3, Window: 10 * second},
		{Algorithm: TokenBucket, Quota: 3, Window: 10 * second},
	} {
		play(t, l, []step{
			{at: 6000 * second, cost: 2, want: allowed(1)},
			{at: 100 * second, op: Charge, cost: 1, want: allowed(0).moved()},
			{at: 100 * second, op: Charge, cost: 1, want: allowed(0)},
		})
		play(t, l, []step{
			{at: 6000 * second, cost: 2, want: allowed(1)},
			{at: 100 * second, op: GiveBack, cost: 1, want: allowed(2).granted(1).moved()},
			{at: 100 * second, op: GiveBack, cost: 1, want: allowed(3).granted(1)},
		})
		play(t, l, []step{
			{at: 6000 * second, cost: 2, want: allowed(1)},
			{at: 100 * second, op: TakeUpTo, cost: 5, want: allowed(0).granted(1).moved()},
			{at: 100 * second, op: Reset, want: allowed(3)},
		})
		play(t, l, []step{ // nothing is left that could have moved
			{at: 6000 * second, cost: 2, want: allowed(1)},
			{at: 100 * second, op: Reset, want: allowed(3)},
		})
	}
}
