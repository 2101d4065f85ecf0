package porttest

import (
	"errors"
	"math/big"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"pgregory.net/rapid"
)

// zones differ as much as possible: offsets of whole hours, halves and quarters, daylight saving time in the north, in the
// south and by half an hour, missing midnights, and no daylight saving time.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo",
	"Asia/Beirut", "Pacific/Kiritimati"}

// drawShape draws an algorithm, the parts of a window and when it begins: the shape.
func drawShape(t *rapid.T, window rule.Micros, segments int, opts Options) rule.Limit {
	l := rule.Limit{Algorithm: rule.Algorithm(rapid.IntRange(int(rule.DefaultAlgorithm), int(rule.InFlight)).Draw(t, "algorithm")), Window: window}
	if len(opts.Algorithms) > 0 {
		l.Algorithm = rapid.SampledFrom(opts.Algorithms).Draw(t, "one of some")
	} else if l.Algorithm == rule.FixedWindow && rapid.Bool().Draw(t, "by the calendar") {
		l.Window, l.Zone = 0, rapid.SampledFrom(zones).Draw(t, "zone")
		l.Calendar = rule.Period(rapid.IntRange(int(rule.Day), int(rule.Year)).Draw(t, "period"))
		return l
	}
	if l.Algorithm == rule.DefaultAlgorithm { // its number of parts follows from the window
		parts := rule.Micros(rapid.IntRange(50, 60).Draw(t, "default parts"))
		l.Window = max(window-window%parts, 20*parts)
	}
	if l.Algorithm == rule.SlidingWindow {
		if l.Segments = 1; opts.InParts || len(opts.Algorithms) == 0 {
			l.Segments = rapid.SampledFrom([]int{1, segments}).Draw(t, "segmented")
		}
	}
	if l.Algorithm == rule.SlidingWindow || l.Algorithm == rule.FixedWindow {
		l.Anchor = rule.Anchor(rapid.IntRange(0, 1).Draw(t, "anchor"))
	}
	return l
}

// drawQuota draws a quota that the store accepts, and everything else that may differ between limits of one shape.
func drawQuota(t *rapid.T, store store.Store, l rule.Limit, opts Options) rule.Limit {
	most := int64(rule.MaxQuota)
	l.CountRefused = l.Algorithm != rule.InFlight && rapid.Bool().Draw(t, "count refused")
	switch l.Algorithm {
	case rule.DefaultAlgorithm:
		if rapid.IntRange(0, 3).Draw(t, "near a log's") > 0 { // on both sides of where it matters
			most = 2 * rule.DefaultLog
		}
	case rule.SlidingWindow:
		l.Overlap = rule.Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
	case rule.SlidingLog, rule.InFlight:
		most = 40 // large ones now and then: a port may read a long log piece by piece
		if large := rapid.IntRange(0, 29).Draw(t, "large log"); large == 29 {
			most = rule.MaxLogQuota
		} else if large > 24 {
			most = 300
		}
	case rule.TokenBucket:
		most = bucketMost(store, l.Window)
	}
	if l.Algorithm != rule.InFlight && rapid.IntRange(0, 3).Draw(t, "hold") == 0 {
		l.CountRefused = false
		l.Hold = draw(t, "held for", 1_000, min(4*max(l.Window, 1_000_000), rule.MaxWindow))
	}
	if opts.MaxQuota > 0 {
		most = min(most, opts.MaxQuota)
	}
	l.Quota = draw(t, "quota", 1, most)
	if l.Algorithm == rule.DefaultAlgorithm {
		if rapid.IntRange(0, 3).Draw(t, "at a log's") == 0 {
			l.Quota = rule.DefaultLog + rapid.Int64Range(-1, 1).Draw(t, "beside a log's")
		}
		l.Lease = !l.CountRefused && l.Hold == 0 && l.Window >= 15e6 && rapid.IntRange(0, 3).Draw(t, "lease") == 0
	}
	if l.Algorithm == rule.TokenBucket {
		fills := new(big.Int).Mul(big.NewInt(l.Quota), big.NewInt(int64(rule.MaxWindow)))
		most = rule.MaxQuota
		if fills.Quo(fills, big.NewInt(int64(l.Window))); fills.Cmp(big.NewInt(most)) < 0 {
			most = fills.Int64()
		}
		if opts.MaxQuota > 0 {
			most = min(most, opts.MaxQuota)
		}
		l.Burst = draw(t, "burst", 1, most)
	}
	return l
}

// bucketMost returns the largest quota of a token bucket that the store accepts.
func bucketMost(st store.Store, window rule.Micros) int64 {
	low, high := int64(1), int64(rule.MaxQuota)
	for low < high {
		middle := low + (high-low+1)/2
		err := st.Check(store.Bind("most", "", "most", rule.Limit{Algorithm: rule.TokenBucket, Quota: middle, Burst: 1, Window: window}))
		switch {
		case err == nil:
			low = middle
		case errors.Is(err, store.ErrUnsupported):
			high = middle - 1
		default:
			panic(err)
		}
	}
	return low
}

// drawWindow returns a length that is divisible by a number, often a round one.
func drawWindow(t *rapid.T, n rule.Micros) rule.Micros {
	least, most := (rule.Micros(1_000)+n-1)/n, rule.MaxWindow/n
	if rapid.Bool().Draw(t, "round window") {
		return n * min(max(rapid.SampledFrom([]rule.Micros{1e3, 1e6, 60e6, 3600e6, 86400e6}).Draw(t, "window"), least), most)
	}
	return n * draw(t, "window", least, most)
}

// drawOrigin returns when a script begins: often near an end of the accepted times, or where the clocks of a zone change.
func drawOrigin(t *rapid.T, window rule.Micros, zone string) rule.Micros {
	kind := rapid.IntRange(0, 2).Draw(t, "origin")
	switch {
	case zone != "" && kind < 2:
		return drawChangeOfClocks(t, zone)
	case kind == 0:
		return spread(t, "near the epoch", 0, 2*window)
	case kind == 1:
		return rule.MaxNow - spread(t, "near the end", 0, 2*window)
	default:
		return 1_767_000_000e6 + spread(t, "now", 0, window)
	}
}

// drawChangeOfClocks returns a time near a clock change of a zone.
func drawChangeOfClocks(t *rapid.T, zone string) rule.Micros {
	in, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMicro(int64(spread[rule.Micros](t, "changes after", 0, 2_200_000_000e6))).In(in)
	if _, until := at.ZoneBounds(); !until.IsZero() {
		at = until
	}
	return max(0, rule.Micros(at.UnixMicro())+draw[rule.Micros](t, "beside the change", -26*3600e6, 26*3600e6))
}

// draw returns a number from least to most. Small ones, those near the ends and those near powers of two are common.
func draw[N ~int64](t *rapid.T, label string, least, most N) N {
	switch rapid.IntRange(0, 3).Draw(t, label+" kind") {
	case 0:
		return least + N(rapid.Int64Range(0, int64(min(10, most-least))).Draw(t, label))
	case 1:
		return most - N(rapid.Int64Range(0, int64(min(3, most-least))).Draw(t, label))
	case 2:
		power := int64(1) << rapid.IntRange(0, 53).Draw(t, label)
		return min(max(N(power+rapid.Int64Range(-1, 1).Draw(t, label+" beside")), least), most)
	default:
		return spread(t, label, least, most)
	}
}

// spread returns a number from least to most, spread over that range: rapid's own numbers are mostly small.
func spread[N ~int64](t *rapid.T, label string, least, most N) N {
	n := N(rapid.Uint64().Draw(t, label) * 0x9E3779B97F4A7C15 >> 1)
	return least + n%(most-least+1)
}
