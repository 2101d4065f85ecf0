package rule

import "testing"

// Scripts for the token bucket: it holds burst units and refills quota of them per window, continuously.

func TestBucket(t *testing.T) {
	play(t, Limit{Algorithm: TokenBucket, Quota: 2, Window: 10 * second, Burst: 3}, []step{
		{at: 100 * second, cost: 3, want: allowed(0).reset(15 * second)}, // a unit is refilled every 5s
		{at: 100 * second, cost: 0, want: allowed(0)},
		{at: 100 * second, cost: 1, want: refused(0).retry(5 * second)},
		{at: 105*second - 1, cost: 1, want: refused(0).retry(1)},
		{at: 105 * second, cost: 1, want: allowed(0).reset(15 * second)},
		{at: 107_500 * milli, cost: 0, want: allowed(0).reset(12_500 * milli)}, // half a unit is not a unit
		{at: 110 * second, cost: 2, want: refused(1).retry(5 * second).reset(10 * second)},
		{at: 110 * second, cost: 4, want: refused(1).retry(Never)},
		{at: 120*second - 1, op: Peek, cost: 3, want: refused(2).retry(1)},
		{at: 120 * second, cost: 3, want: allowed(0)},
		{at: 500 * second, cost: 1, want: allowed(2).reset(5 * second)}, // it never holds more than its burst
	})
}

func TestBucketHoldsItsQuotaByDefault(t *testing.T) {
	play(t, Limit{Algorithm: TokenBucket, Quota: 4, Window: second}, []step{
		{at: 100 * second, cost: 5, want: refused(4).retry(Never)},
		{at: 100 * second, cost: 4, want: allowed(0).reset(second)},
		{at: 100 * second, cost: 4, want: refused(0).retry(second)},
	})
}

func TestBucketCountRefused(t *testing.T) {
	play(t, Limit{Algorithm: TokenBucket, Quota: 2, Window: 10 * second, Burst: 3, CountRefused: true}, []step{
		{at: 100 * second, cost: 2, want: allowed(1)},
		// A refusal empties the bucket, and never takes more than that.
		{at: 100 * second, cost: 2, want: refused(0).retry(10 * second).reset(15 * second)},
		{at: 100 * second, cost: 3, want: refused(0).retry(15 * second).reset(15 * second)},
		{at: 109 * second, cost: 2, want: refused(0).retry(10 * second).reset(15 * second)},
		{at: 118 * second, cost: 4, want: refused(1).retry(Never)}, // a cost that is never admitted does not
		{at: 119 * second, cost: 2, want: allowed(0)},
	})
}

// A million and three per minute: a unit takes 60,000,000/1,000,003 = 59.99982 microseconds, which must not be rounded.
func TestBucketKeepsTheRest(t *testing.T) {
	const start = 100 * second
	play(t, Limit{Algorithm: TokenBucket, Quota: 1_000_003, Window: minute, Burst: 2}, []step{
		{at: start, cost: 2, want: allowed(0).reset(120)}, // 119.99964us
		{at: start + 59, cost: 1, want: refused(0).retry(1)},
		{at: start + 60, cost: 1, want: allowed(0).reset(120)}, // owes 180 - 60.00018 in units of 59.99982: 119.9994us
		{at: start + 119, cost: 1, want: refused(0).retry(1)},
		{at: start + 120, cost: 1, want: allowed(0)},
	})
}

// Taken one by one from an empty bucket, the n-th unit comes ceil(n * 60,000,000 / 1,000,003) microseconds later. With a
// unit rounded to 60us, the 333,334th would be 60us too late.
func TestBucketDoesNotDrift(t *testing.T) {
	const start, units = 100 * second, 333_334
	l := normal(t, Limit{Algorithm: TokenBucket, Quota: 1_000_003, Window: minute, Burst: 1_000})
	var s State
	l.TakeOne(&s, start, 1_000)
	now := start
	for taken := 0; taken < units; {
		a, _ := l.TakeOne(&s, now, 1)
		if a.Allowed {
			taken++
		} else if a.RetryAfter <= 0 {
			t.Fatalf("refused, but RetryAfter is %d", a.RetryAfter)
		}
		now += a.RetryAfter
	}
	if want := start + 19_999_981; now != want { // 333,334 * 60,000,000 / 1,000,003 = 19,999,980.00006
		t.Errorf("the last unit came after %dus, want %dus", now-start, want-start)
	}
}

func TestBucketOfManyAndFew(t *testing.T) {
	// One unit in five years, and the largest burst that fills within five years: one.
	play(t, Limit{Algorithm: TokenBucket, Quota: 1, Window: MaxWindow}, []step{
		{at: 1000 * second, cost: 1, want: allowed(0).reset(MaxWindow)},
		{at: 1000*second + MaxWindow - 1, cost: 1, want: refused(0).retry(1)},
		{at: 1000*second + MaxWindow, cost: 1, want: allowed(0)},
	})
	// The largest quota: a microsecond refills 2^53-1 per 1000us, which is 9,007,199,254,740 and 991/1000 units.
	play(t, Limit{Algorithm: TokenBucket, Quota: MaxQuota, Window: milli}, []step{
		{at: 1000 * second, cost: MaxQuota, want: allowed(0).reset(milli)},
		{at: 1000*second + 1, cost: 0, want: allowed(9_007_199_254_740)},
		{at: 1000*second + 1, cost: 9_007_199_254_741, want: refused(9_007_199_254_740).retry(1)},
		{at: 1000*second + 2, cost: 0, want: allowed(18_014_398_509_481)},
	})
}

// The debt is never more than 2^53-1 units, the most that ports can represent.
func TestBucketDebtSaturates(t *testing.T) {
	play(t, Limit{Algorithm: TokenBucket, Quota: MaxQuota, Window: milli}, []step{
		{at: 1000 * second, op: Charge, cost: MaxQuota, want: allowed(0).next(1).reset(milli)},
		{at: 1000 * second, op: Charge, cost: MaxQuota, want: allowed(0).next(1).reset(milli)},
	})
	play(t, Limit{Algorithm: TokenBucket, Quota: MaxQuota - 7, Window: milli, Burst: 9}, []step{
		{at: 1000 * second, op: Charge, cost: MaxQuota, want: allowed(0).reset(milli + 1)},
	})
}
