package storetest

import (
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

const (
	year     = 365 * 24 * time.Hour
	fiveYear = time.Duration(rule.MaxWindow) * time.Microsecond // the longest window
)

// catalogue returns a limit for every combination of options. Quotas and windows are assigned in turn, from lists whose
// lengths have no common factor, so that each option is combined with small and huge ones.
func catalogue() []slidegate.Limit {
	quotas := []int64{10, 1, 1_000_003, 3, 1 << 40, 100, rule.MaxQuota}
	windows := []time.Duration{time.Minute, time.Millisecond, time.Second, year, time.Hour}
	var limits []slidegate.Limit
	deal := func(l slidegate.Limit) {
		n := len(limits)
		l.Quota, l.Window = quotas[n%len(quotas)], divisible(windows[n%len(windows)], l.Segments)
		limits = append(limits, l)
	}
	for _, refused := range []bool{false, true} {
		for _, anchor := range []rule.Anchor{rule.AnchorClock, slidegate.AnchorFirst} {
			for _, overlap := range []rule.Overlap{rule.OverlapUp, slidegate.OverlapDown, slidegate.OverlapWhole} {
				for _, segments := range []int{1, 2, 6, 60} {
					deal(slidegate.Limit{Algorithm: slidegate.SlidingWindow, Segments: segments, Overlap: overlap, Anchor: anchor, CountRefused: refused})
				}
			}
			deal(slidegate.Limit{Algorithm: slidegate.FixedWindow, Anchor: anchor, CountRefused: refused})
		}
		deal(slidegate.Limit{Algorithm: slidegate.TokenBucket, CountRefused: refused})
	}
	return append(limits, extremeLimits()...)
}

// extremeLimits returns limits at the edges of the accepted ranges, and those that catalogue cannot make.
func extremeLimits() []slidegate.Limit {
	const log, bucket, fixed, window = slidegate.SlidingLog, slidegate.TokenBucket, slidegate.FixedWindow, slidegate.SlidingWindow
	return []slidegate.Limit{
		{Algorithm: log, Quota: 1, Window: time.Millisecond},
		{Algorithm: log, Quota: 7, Window: time.Second, CountRefused: true},
		{Algorithm: log, Quota: 20, Window: 2 * time.Hour}, // longer than 71 minutes, which is 2^32 microseconds
		{Algorithm: log, Quota: rule.MaxLogQuota, Window: fiveYear},
		{Algorithm: bucket, Quota: 1_000_003, Window: time.Minute, Burst: 17},
		{Algorithm: bucket, Quota: 7, Window: time.Second, Burst: 1},
		{Algorithm: bucket, Quota: 3, Window: time.Second, Burst: 40, CountRefused: true},
		{Algorithm: bucket, Quota: 1 << 40, Window: year},
		{Algorithm: bucket, Quota: rule.MaxQuota, Window: time.Millisecond},
		{Algorithm: bucket, Quota: rule.MaxQuota, Window: fiveYear},
		{Algorithm: bucket, Quota: 1, Window: fiveYear},
		{Algorithm: fixed, Quota: rule.MaxQuota, Window: fiveYear},
		{Algorithm: window, Quota: 1 << 40, Window: year},
		{Algorithm: window, Quota: rule.MaxQuota, Window: fiveYear},
		{Algorithm: window, Quota: rule.MaxQuota, Window: fiveYear, Segments: 60, Overlap: slidegate.OverlapDown},
		{Algorithm: window, Quota: 5, Window: 64 * time.Millisecond, Segments: rule.MaxSegments},
		{Quota: 1, Window: time.Millisecond},
		{Quota: 40, Window: time.Second, CountRefused: true},
		{Quota: 150, Window: time.Minute}, // its variant has a quota below 100
		{Quota: 150, Window: 2 * time.Hour, CountRefused: true},
		{Quota: rule.MaxQuota, Window: fiveYear},
	}
}

// smallLimits returns limits in which a few units make a difference: one for each way of counting.
func smallLimits() []slidegate.Limit {
	return []slidegate.Limit{
		{Algorithm: slidegate.SlidingWindow, Quota: 30, Window: time.Minute},
		{Algorithm: slidegate.SlidingWindow, Quota: 30, Window: time.Minute, Segments: 6, Overlap: slidegate.OverlapWhole, Anchor: slidegate.AnchorFirst},
		{Algorithm: slidegate.SlidingWindow, Quota: 30, Window: time.Minute, Segments: 60, Overlap: slidegate.OverlapDown, CountRefused: true},
		{Algorithm: slidegate.SlidingLog, Quota: 30, Window: time.Minute},
		{Algorithm: slidegate.FixedWindow, Quota: 30, Window: time.Minute},
		{Algorithm: slidegate.TokenBucket, Quota: 30, Window: time.Minute},
		{Quota: 30, Window: time.Minute},
	}
}

// slots returns in-flight limits: few and many slots, with short and long times to live.
func slots() []rule.Limit {
	return []rule.Limit{
		{Algorithm: rule.InFlight, Quota: 1, Window: rule.Micros(1_000)},
		{Algorithm: rule.InFlight, Quota: 3, Window: 30_000_000},
		{Algorithm: rule.InFlight, Quota: 50, Window: 7_200_000_000},
		{Algorithm: rule.InFlight, Quota: rule.MaxLogQuota, Window: rule.MaxWindow},
	}
}

// calendars returns calendar limits: every period, and zones of every kind.
func calendars() []rule.Limit {
	return []rule.Limit{
		{Calendar: rule.Day, Quota: 10, Zone: "UTC"},
		{Calendar: rule.Day, Quota: 3, Zone: "America/Sao_Paulo", CountRefused: true},
		{Calendar: rule.Day, Quota: rule.MaxQuota, Zone: "Asia/Beirut"}, // where midnight is skipped when summer time begins
		{Calendar: rule.Week, Quota: 100, Zone: "Australia/Lord_Howe"},
		{Calendar: rule.Month, Quota: 1_000, Zone: "Europe/Berlin"},
		{Calendar: rule.Month, Quota: 7, Zone: "Asia/Kathmandu"},
		{Calendar: rule.Year, Quota: 50, Zone: "America/New_York"},
	}
}

// variantOfRule is variantOf for a limit in integers.
func variantOfRule(l rule.Limit) rule.Limit {
	l.Quota = l.Quota/2 + 1
	l.CountRefused = !l.CountRefused && l.Algorithm != rule.InFlight && l.Hold == 0
	return l
}

// variantOf returns a limit that shares its state with l and differs in everything that may differ.
func variantOf(l slidegate.Limit) slidegate.Limit {
	if l.Algorithm == slidegate.SlidingWindow {
		l.Overlap = (l.Overlap + 1) % 3
	}
	if l.Algorithm == slidegate.TokenBucket {
		l.Burst = max(l.Burst, l.Quota)/2 + 1
	}
	l.Quota = l.Quota/2 + 1
	l.CountRefused = !l.CountRefused
	return l
}

// partOf returns the length of a limit's part; algorithms without parts have one.
func partOf(l *rule.Limit) rule.Micros { return l.Window / rule.Micros(max(1, l.Segments)) }

// divisible makes a window slightly longer, if necessary, so that it divides into whole microseconds.
func divisible(window time.Duration, segments int) time.Duration {
	part := time.Duration(max(1, segments)) * time.Microsecond
	return (window + part - 1) / part * part
}
