package slidegate_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/storetest"
)

// leastShare returns the share of the quota that an obedient client gets: the least of several clients that begin at
// different times in the window.
func leastShare(t testing.TB, limit slidegate.Limit) float64 {
	t.Helper()
	const starts = 3
	window := rule.Micros(limit.Window.Microseconds())
	least := 2.0
	for i := range rule.Micros(starts) {
		least = min(least, share(t, limit, noon+window*i/starts+i))
	}
	return least
}

// share runs a client that requests one unit at a time, and after each denial waits for RetryAfter. It counts what is
// admitted from the end of one wait to the end of another, 24 windows later or, for small quotas, up to 500. The first
// windows, in which a burst may be free, do not count.
func share(t testing.TB, limit slidegate.Limit, begin rule.Micros) float64 {
	t.Helper()
	const before = 4
	measured := rule.Micros(max(24, min(500, 10_000/limit.Quota)))
	clock := storetest.NewClock(begin)
	limiter := newLimiter(t, newMemory(t, clock), limit)
	window := rule.Micros(limit.Window.Microseconds())
	var first rule.Micros
	var admitted int64
	for {
		d := allowOne(t, limiter, "k")
		if d.Allowed {
			admitted++
			continue
		}
		now := clock.Advance(rule.Micros(d.RetryAfter.Microseconds()))
		switch {
		case first == 0 && now >= begin+before*window:
			first, admitted = now, 0
		case first != 0 && now >= first+measured*window:
			return float64(admitted) / (float64(limit.Quota) * float64(now-first) / float64(window))
		}
	}
}

// A client that obeys RetryAfter gets the whole quota, however small it is.
func TestObedientClientGetsTheQuota(t *testing.T) {
	for _, text := range []string{"1/1s", "2/1s", "5/1s", "1/1m", "3/1m", "60/1m", "100/1m", "600/1m"} {
		if share := leastShare(t, slidegate.MustParseLimit(text)); share < 0.99 {
			t.Errorf("%s: an obedient client gets %.2f of the quota, want all of it", text, share)
		}
	}
	if share := leastShare(t, slidegate.MustParseLimit("1/1s sliding-window")); share > 0.6 {
		t.Errorf("a sliding window of 1/1s gives %.2f of the quota, so this test measures something else", share)
	}
}

// After a burst, RetryAfter is never longer than the window.
func TestBurstWaitsNoLongerThanTheWindow(t *testing.T) {
	for start := range rule.Micros(60) {
		clock := storetest.NewClock(noon + start*1_000_001)
		limiter := newLimiter(t, newMemory(t, clock), slidegate.PerMinute(5))
		for range 5 {
			allowOne(t, limiter, "k")
		}
		if d := allowOne(t, limiter, "k"); d.Allowed || d.RetryAfter > time.Minute {
			t.Errorf("at second %d: sixth request of five: got %+v, want a denial for at most a minute", start, d)
		}
	}
}
