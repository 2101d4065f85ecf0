package rule

import "testing"

// Scripts for the sliding log: a unit counts if and only if its time is less than a window ago.

func TestLog(t *testing.T) {
	play(t, Limit{Algorithm: SlidingLog, Quota: 3, Window: 10 * second}, []step{
		{at: 1 * second, cost: 1, want: allowed(2).reset(10 * second)},
		{at: 2 * second, cost: 2, want: allowed(0).reset(10 * second)},
		// The unit of 1s has expired at 11s, those of 2s at 12s.
		{at: 3 * second, cost: 1, want: refused(0).retry(8 * second).reset(9 * second)},
		{at: 3 * second, cost: 2, want: refused(0).retry(9 * second)},
		{at: 3 * second, cost: 3, want: refused(0).retry(9 * second)},
		{at: 3 * second, cost: 4, want: refused(0).retry(Never)},
		{at: 3 * second, cost: 0, want: allowed(0)},
		// A time before the newest unit counts as that unit's time, but RetryAfter is still relative to the caller's time.
		{at: 500 * milli, cost: 1, want: refused(0).retry(10_500 * milli).deciding(2 * second)},
		{at: 11*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 11 * second, cost: 2, want: refused(1).retry(second)},
		{at: 11 * second, cost: 1, want: allowed(0)},
		{at: 12 * second, cost: 0, want: allowed(2).reset(9 * second)},
		{at: 21*second - 1, op: Peek, cost: 3, want: refused(2).retry(1)},
		{at: 21 * second, cost: 3, want: allowed(0)},
	})
}

func TestLogOfOne(t *testing.T) {
	play(t, Limit{Algorithm: SlidingLog, Quota: 1, Window: milli, CountRefused: true}, []step{
		{at: 0, cost: 1, want: allowed(0).reset(milli)},
		{at: 1, cost: 1, want: refused(0).retry(milli)},
		{at: milli, cost: 1, want: refused(0).retry(milli)}, // the refusal of 1us still counts
		{at: 2*milli - 1, op: Peek, cost: 1, want: refused(0).retry(1)},
		{at: 2 * milli, cost: 1, want: allowed(0)},
	})
}

func TestLogCountRefused(t *testing.T) {
	play(t, Limit{Algorithm: SlidingLog, Quota: 2, Window: 10 * second, CountRefused: true}, []step{
		{at: 1 * second, cost: 2, want: allowed(0)},
		// The refusal overwrites one unit of 1s. The other expires at 11s, and then one fits.
		{at: 5 * second, cost: 1, want: refused(0).retry(6 * second).reset(10 * second)},
		// This one overwrites both.
		{at: 6 * second, cost: 2, want: refused(0).retry(10 * second).reset(10 * second)},
		{at: 7 * second, cost: 3, want: refused(0).retry(Never).reset(9 * second)},
		{at: 16*second - 1, op: Peek, cost: 1, want: refused(0).retry(1)},
		{at: 16 * second, cost: 1, want: allowed(1)},
		// The refusal of two leaves only itself.
		{at: 17 * second, cost: 2, want: refused(0).retry(10 * second)},
		{at: 26 * second, op: Peek, cost: 1, want: refused(0).retry(second)},
		{at: 27 * second, cost: 2, want: allowed(0)},
	})
}

// A window too long for four bytes of time, and gaps that four bytes would mistake for short ones.
func TestLogOfALongWindow(t *testing.T) {
	const turn = Micros(1) << 32 // 71 minutes: where the low four bytes repeat
	play(t, Limit{Algorithm: SlidingLog, Quota: 3, Window: 3 * turn}, []step{
		{at: 5 * second, cost: 1, want: allowed(2)},
		{at: 5*second + turn, cost: 1, want: allowed(1)},
		{at: 5*second + 2*turn, cost: 1, want: allowed(0).reset(3 * turn)},
		{at: 6*second + 2*turn, cost: 1, want: refused(0).retry(turn - second)},
		{at: 6*second + 2*turn, cost: 2, want: refused(0).retry(2*turn - second)},
		{at: 6*second + 2*turn, cost: 3, want: refused(0).retry(3*turn - second)},
		{at: 5*second + 3*turn, cost: 1, want: allowed(0)},
	})
	play(t, Limit{Algorithm: SlidingLog, Quota: 2, Window: turn + 1}, []step{ // the shortest that needs more than four bytes
		{at: 5 * second, cost: 1, want: allowed(1)},
		{at: 5*second + turn, cost: 1, want: allowed(0)},
		{at: 5*second + turn, cost: 1, want: refused(0).retry(1)},
	})
}
