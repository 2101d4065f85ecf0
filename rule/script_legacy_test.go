package rule

import "testing"

// Buckets written by older versions, which kept only the time at which they are full.

func TestLegacyBucket(t *testing.T) {
	limit := Limit{Algorithm: TokenBucket, Quota: 2, Window: 10 * second, Burst: 3}
	playFrom(t, limit, LegacyBucket(110*second, 0), []step{ // two units are missing at 100s
		{at: 100 * second, op: Peek, cost: 1, want: allowed(1).reset(10 * second)},
		{at: 100 * second, cost: 2, want: denied(1).retry(5 * second).reset(10 * second)},
		{at: 105*second - 1, op: Peek, cost: 2, want: denied(1).retry(1)},
		{at: 105 * second, op: Peek, cost: 2, want: allowed(2)},
		{at: 105 * second, cost: 1, want: allowed(1).reset(10 * second)}, // from here on it is a state of this version
		{at: 103 * second, cost: 1, want: allowed(0).deciding(105 * second).next(7 * second).reset(17 * second)},
	})
	playFrom(t, limit, LegacyBucket(110*second, 0), []step{
		{at: 110 * second, cost: 3, want: allowed(0).reset(15 * second)},
	})
	playFrom(t, limit, LegacyBucket(110*second, 1), []step{ // full half a microsecond later
		{at: 110 * second, cost: 3, want: denied(2).retry(1).reset(1)},
		{at: 110*second + 1, cost: 3, want: allowed(0)},
	})
	playFrom(t, limit, LegacyBucket(110*second, 999), []step{ // the rest from a larger quota is also less than a microsecond
		{at: 110 * second, cost: 3, want: denied(2).retry(1).reset(1)},
	})
	playFrom(t, limit, LegacyBucket(110*second, 0), []step{
		{at: 100 * second, op: GiveBack, cost: 2, want: allowed(3).granted(2).reset(0)},
	})
	playFrom(t, limit, LegacyBucket(110*second, 0), []step{
		{at: 100 * second, op: Reset, want: allowed(3).reset(0)},
	})
}

// The clock had jumped ahead: the debt is the deepest possible one, as of the first request that is denied.
func TestLegacyBucketAhead(t *testing.T) {
	limit := Limit{Algorithm: TokenBucket, Quota: 2, Window: 10 * second, Burst: 3}
	playFrom(t, limit, LegacyBucket(6000*second, 0), []step{
		{at: 90 * second, op: Peek, cost: 1, want: denied(0).moved()},
		{at: 100 * second, cost: 1, want: denied(0).moved().retry(15 * second).reset(25 * second)},
		{at: 115*second - 1, cost: 1, want: denied(0).retry(1)},
		{at: 115 * second, cost: 1, want: allowed(0)},
	})
	playFrom(t, limit, LegacyBucket(MaxNow, MaxQuota), []step{{at: 0, cost: 1, want: denied(0).moved().retry(15 * second)}})
}

// A state that covers a bucket far ahead counts for as long as that bucket.
func TestCoverALegacyBucketAhead(t *testing.T) {
	l := normal(t, Limit{Algorithm: TokenBucket, Quota: 2, Window: 10 * second, Burst: 300})
	other := LegacyBucket(1100*second, 1)
	var s State
	l.Cover(&s, &other, 100*second)
	for at, least := range map[Micros]int64{100 * second: 200, 1000 * second: 20, 1100 * second: 1} {
		if used := l.Used(&s, at); used < least {
			t.Errorf("at %d: used %d, want at least %d", at, used, least)
		}
	}
	if used := l.Used(&s, 1100*second+1); used != 0 {
		t.Errorf("used %d in the end, want 0", used)
	}
}
