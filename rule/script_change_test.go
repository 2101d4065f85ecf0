package rule

import "testing"

// What happens to counts when the quota, the burst, the overlap or count_denied change over them: they stay, and the new
// values apply from the next decision on.

func quota(n int64) func(*Limit) { return func(l *Limit) { l.Quota = n } }
func burst(n int64) func(*Limit) { return func(l *Limit) { l.Burst = n } }

func TestQuotaChangesOverAWindow(t *testing.T) {
	play(t, Limit{Quota: 10, Window: minute}, []step{
		{at: 60 * second, cost: 10, want: allowed(0)},
		{at: 61 * second, set: quota(20), cost: 5, want: allowed(5)},
		// 15 are used of 5: 15*covered <= 5*60s at 160s, <= 4*60s at 164s.
		{at: 62 * second, set: quota(5), cost: 0, want: denied(0).retry(98 * second)},
		{at: 62 * second, cost: 1, want: denied(0).retry(102 * second)},
		{at: 62 * second, cost: 6, want: denied(0).retry(Never)},
		{at: 62 * second, set: quota(16), cost: 1, want: allowed(0)},
	})
}

func TestOverlapAndCountDeniedChange(t *testing.T) {
	play(t, Limit{Quota: 10, Window: minute}, []step{
		{at: 60 * second, cost: 7, want: allowed(3)},
		{at: 150 * second, cost: 0, want: allowed(6)}, // 3.5 rounded up
		{at: 150 * second, set: func(l *Limit) { l.Overlap = Down }, cost: 0, want: allowed(7)},
		{at: 150 * second, set: func(l *Limit) { l.Overlap = Whole }, cost: 0, want: allowed(3)},
		{at: 150 * second, cost: 4, want: denied(3).retry(30 * second)},
		{at: 150 * second, set: func(l *Limit) { l.CountDenied = true }, cost: 4, want: denied(0).retry(30 * second).reset(90 * second)},
	})
}

func TestQuotaChangesOverALog(t *testing.T) {
	play(t, Limit{Algorithm: SlidingLog, Quota: 5, Window: 10 * second}, []step{
		{at: 1 * second, cost: 1, want: allowed(4)},
		{at: 2 * second, cost: 1, want: allowed(3)},
		{at: 3 * second, cost: 1, want: allowed(2)},
		{at: 4 * second, cost: 1, want: allowed(1)},
		{at: 5 * second, cost: 1, want: allowed(0)},
		// The newest three count: one fits when that of 3s is gone.
		{at: 6 * second, set: quota(3), cost: 1, want: denied(0).retry(7 * second)},
		{at: 6 * second, cost: 3, want: denied(0).retry(9 * second)},
		// A refusal writes nothing, so all five are still there.
		{at: 6 * second, set: quota(6), cost: 2, want: denied(1).retry(5 * second)},
		// A charge keeps the newest three: 4s, 5s and 13s.
		{at: 13 * second, set: quota(3), cost: 1, want: allowed(0)},
		{at: 13 * second, set: quota(5), cost: 3, want: denied(2).retry(1 * second)},
	})
}

func TestQuotaChangesOverABucket(t *testing.T) {
	play(t, Limit{Algorithm: TokenBucket, Quota: 2, Window: 10 * second, Burst: 3}, []step{
		{at: 100 * second, cost: 3, want: allowed(0).reset(15 * second)},
		// It is full 15s later whatever it holds: at 115s all four are there, so it has one now.
		{at: 100 * second, set: burst(4), cost: 2, want: denied(1).retry(5 * second).reset(15 * second)},
		{at: 100 * second, set: burst(2), cost: 0, want: denied(0).retry(5 * second)},
		// Twice as fast, those 15s are six units.
		{at: 100 * second, set: func(l *Limit) { l.Quota, l.Burst = 4, 6 }, cost: 1, want: denied(0).retry(2_500 * milli)},
		{at: 100 * second, set: burst(7), cost: 1, want: allowed(0).reset(17_500 * milli)},
	})
	// What is left over of a microsecond by one quota is less than a microsecond by any other.
	play(t, Limit{Algorithm: TokenBucket, Quota: 7_000, Window: milli, Burst: 1 << 20}, []step{
		{at: 100 * second, cost: 6_999, want: allowed(1<<20 - 6_999).reset(milli)}, // 999us and 6000/7000
		{at: 100 * second, set: quota(3), cost: 0, want: allowed(1<<20 - 3).reset(milli)},
		{at: 100*second + 999, cost: 0, want: allowed(1<<20 - 1).reset(1)},
		{at: 100*second + 1000, cost: 0, want: allowed(1 << 20).reset(0)},
	})
}
