package rule

import "testing"

// When the quota, the burst, the overlap or count_refused changes, the counts stay, and the new values apply from the next
// decision on.

func quota(n int64) func(*Limit) { return func(l *Limit) { l.Quota = n } }
func burst(n int64) func(*Limit) { return func(l *Limit) { l.Burst = n } }

func TestQuotaChangesOverAWindow(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute}, []step{
		{at: 60 * second, cost: 10, want: allowed(0)},
		{at: 61 * second, set: quota(20), cost: 5, want: allowed(5)},
		// 15 are used of 5: 15*covered <= 5*60s at 160s, <= 4*60s at 164s.
		{at: 62 * second, set: quota(5), cost: 0, want: refused(0).retry(98 * second)},
		{at: 62 * second, cost: 1, want: refused(0).retry(102 * second)},
		{at: 62 * second, cost: 6, want: refused(0).retry(Never)},
		{at: 62 * second, set: quota(16), cost: 1, want: allowed(0)},
	})
}

func TestOverlapAndCountRefusedChange(t *testing.T) {
	play(t, Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute}, []step{
		{at: 60 * second, cost: 7, want: allowed(3)},
		{at: 150 * second, cost: 0, want: allowed(6)}, // 3.5 rounded up
		{at: 150 * second, set: func(l *Limit) { l.Overlap = OverlapDown }, cost: 0, want: allowed(7)},
		{at: 150 * second, set: func(l *Limit) { l.Overlap = OverlapWhole }, cost: 0, want: allowed(3)},
		{at: 150 * second, cost: 4, want: refused(3).retry(30 * second)},
		{at: 150 * second, set: func(l *Limit) { l.CountRefused = true }, cost: 4, want: refused(0).retry(30 * second).reset(90 * second)},
	})
}

func TestQuotaChangesOverALog(t *testing.T) {
	play(t, Limit{Algorithm: SlidingLog, Quota: 5, Window: 10 * second}, []step{
		{at: 1 * second, cost: 1, want: allowed(4)},
		{at: 2 * second, cost: 1, want: allowed(3)},
		{at: 3 * second, cost: 1, want: allowed(2)},
		{at: 4 * second, cost: 1, want: allowed(1)},
		{at: 5 * second, cost: 1, want: allowed(0)},
		// All five count: one fits when the unit of 3s has expired, too.
		{at: 6 * second, set: quota(3), cost: 1, want: refused(0).retry(7 * second)},
		{at: 6 * second, cost: 3, want: refused(0).retry(9 * second)},
		// They count against a larger quota again.
		{at: 6 * second, set: quota(6), cost: 2, want: refused(1).retry(5 * second)},
		// The units of 4s, 5s and 13s.
		{at: 13 * second, set: quota(3), cost: 1, want: allowed(0)},
		{at: 13 * second, set: quota(5), cost: 3, want: refused(2).retry(1 * second)},
	})
}

func TestQuotaChangesOverABucket(t *testing.T) {
	const hour = 60 * minute
	both := func(quota, burst int64) func(*Limit) { return func(l *Limit) { l.Quota, l.Burst = quota, burst } }
	play(t, Limit{Algorithm: TokenBucket, Quota: 2, Window: 10 * second, Burst: 3}, []step{
		{at: 100 * second, cost: 3, want: allowed(0).next(5 * second).reset(15 * second)},
		// Three units are missing, whatever the burst is.
		{at: 100 * second, set: burst(4), cost: 2, want: refused(1).retry(5 * second).reset(15 * second)},
		{at: 100 * second, set: burst(2), cost: 0, want: refused(0).retry(5 * second)},
		{at: 100 * second, set: both(4, 6), cost: 4, want: refused(3).retry(2_500 * milli).reset(7_500 * milli)},
		{at: 100 * second, set: both(4, 7), cost: 4, want: allowed(0).next(2_500 * milli).reset(17_500 * milli)},
	})
	// An upgrade: what was used stays used, and refills at the new rate.
	play(t, Limit{Algorithm: TokenBucket, Quota: 10, Window: hour, Burst: 10}, []step{
		{at: hour, cost: 10, want: allowed(0).next(6 * minute).reset(hour)},
		{at: hour, set: both(1000, 10), cost: 1, want: refused(0).retry(3_600 * milli).reset(36 * second)},
		{at: hour + 3_600*milli - 1, cost: 1, want: refused(0).retry(1)},
		{at: hour + 3_600*milli, cost: 1, want: allowed(0).next(3_600 * milli)},
	})
	// A downgrade: nothing becomes free immediately.
	play(t, Limit{Algorithm: TokenBucket, Quota: 1000, Window: hour, Burst: 10}, []step{
		{at: hour, cost: 10, want: allowed(0).next(3_600 * milli).reset(36 * second)},
		{at: hour, set: both(10, 10), cost: 1, want: refused(0).retry(6 * minute).reset(hour)},
		{at: hour + 6*minute - 1, cost: 1, want: refused(0).retry(1)},
		{at: hour + 6*minute, cost: 1, want: allowed(0).next(6 * minute)},
	})
	// A state ends a window after it was written, if it was full by then; from then on the bucket is full, whatever the
	// limit is.
	play(t, Limit{Algorithm: TokenBucket, Quota: 1000, Window: hour, Burst: 10}, []step{
		{at: hour, cost: 10, want: allowed(0)},
		{at: 2*hour - 1, set: both(1, 10), cost: 1, want: refused(0).retry(1).reset(1)},
		{at: 2 * hour, cost: 10, want: allowed(0).next(hour).reset(10 * hour)},
	})
}

// What was used of a larger burst stays used: the smaller one does not cut it, neither when it is asked nor when it charges.
func TestBurstShrinks(t *testing.T) {
	play(t, Limit{Algorithm: TokenBucket, Quota: 10, Window: 10 * second, Burst: 1000}, []step{
		{at: 100 * second, cost: 1000, want: allowed(0).next(second).reset(1000 * second)},
		{at: 100 * second, set: burst(5), cost: 1, want: refused(0).retry(996 * second).reset(1000 * second)},
		{at: 111 * second, op: Charge, cost: 1, want: allowed(0).next(985 * second).reset(989 * second)}, // deeper than 5 and a quota: not charged
		{at: 111 * second, set: burst(1000), cost: 12, want: refused(11).retry(second)},
		{at: 1096*second - 1, set: burst(5), cost: 1, want: refused(0).retry(1)},
		{at: 1096 * second, cost: 1, want: allowed(0).next(second).reset(5 * second)},
		{at: 1096 * second, set: burst(1000), cost: 996, want: refused(995).retry(second)},
	})
}
