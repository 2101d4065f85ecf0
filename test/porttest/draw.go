package porttest

import (
	"errors"
	"math/big"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"pgregory.net/rapid"
)

// drawShape draws an algorithm, the parts of a window and when it begins: what a state belongs to.
func drawShape(t *rapid.T, window rule.Micros, segments int, some []rule.Algorithm) rule.Limit {
	l := rule.Limit{Algorithm: rule.Algorithm(rapid.IntRange(0, 3).Draw(t, "algorithm")), Window: window}
	if len(some) > 0 {
		l.Algorithm = rapid.SampledFrom(some).Draw(t, "one of some")
	}
	if l.Algorithm == rule.SlidingWindow {
		if l.Segments = 1; len(some) == 0 {
			l.Segments = rapid.SampledFrom([]int{1, segments}).Draw(t, "segmented")
		}
	}
	if l.Algorithm == rule.SlidingWindow || l.Algorithm == rule.FixedWindow {
		l.Anchor = rule.Anchor(rapid.IntRange(0, 1).Draw(t, "anchor"))
	}
	return l
}

// drawQuota gives a shape a quota that the store takes, and all that may differ within a shape.
func drawQuota(t *rapid.T, store store.Store, l rule.Limit) rule.Limit {
	most := int64(rule.MaxQuota)
	l.CountDenied = rapid.Bool().Draw(t, "count denied")
	switch l.Algorithm {
	case rule.SlidingWindow:
		l.Overlap = rule.Overlap(rapid.IntRange(0, 2).Draw(t, "overlap"))
	case rule.SlidingLog:
		most = 40 // large ones now and then: a port may read a long log piece by piece
		if large := rapid.IntRange(0, 29).Draw(t, "large log"); large == 29 {
			most = rule.MaxLogQuota
		} else if large > 24 {
			most = 300
		}
	case rule.TokenBucket:
		most = bucketMost(store, l.Window)
	}
	l.Quota = draw(t, "quota", 1, most)
	if l.Algorithm == rule.TokenBucket {
		fills := new(big.Int).Mul(big.NewInt(l.Quota), big.NewInt(int64(rule.MaxWindow)))
		most = rule.MaxQuota
		if fills.Quo(fills, big.NewInt(int64(l.Window))); fills.Cmp(big.NewInt(most)) < 0 {
			most = fills.Int64()
		}
		l.Burst = draw(t, "burst", 1, most)
	}
	return l
}

// bucketMost returns the largest quota of a token bucket that the store takes.
func bucketMost(st store.Store, window rule.Micros) int64 {
	low, high := int64(1), int64(rule.MaxQuota)
	for low < high {
		middle := low + (high-low+1)/2
		bound, err := slidegate.Bind("most", limitOf(rule.Limit{
			Algorithm: rule.TokenBucket, Quota: middle, Burst: 1, Window: window,
		}))
		if err == nil {
			err = st.Check(bound)
		}
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

// limitOf returns a limit of the rule as people write it.
func limitOf(l rule.Limit) slidegate.Limit {
	return slidegate.Limit{
		Algorithm: l.Algorithm, Overlap: l.Overlap, Anchor: l.Anchor, CountDenied: l.CountDenied, Segments: l.Segments,
		Quota: l.Quota, Burst: l.Burst, Window: l.Window.Duration(),
	}
}

// drawWindow returns a length that divides by a number, often one as people choose them.
func drawWindow(t *rapid.T, n rule.Micros) rule.Micros {
	least, most := (rule.MinWindow+n-1)/n, rule.MaxWindow/n
	if rapid.Bool().Draw(t, "round window") {
		return n * min(max(rapid.SampledFrom([]rule.Micros{1e3, 1e6, 60e6, 3600e6, 86400e6}).Draw(t, "window"), least), most)
	}
	return n * draw(t, "window", least, most)
}

// drawOrigin returns when a game begins: often near an end of the accepted times.
func drawOrigin(t *rapid.T, window rule.Micros) rule.Micros {
	switch rapid.IntRange(0, 2).Draw(t, "origin") {
	case 0:
		return spread(t, "near the epoch", 0, 2*window)
	case 1:
		return rule.MaxNow - spread(t, "near the end", 0, 2*window)
	default:
		return 1_767_000_000e6 + spread(t, "now", 0, window)
	}
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

// spread returns a number from least to most, all over that range: rapid's own are mostly small ones.
func spread[N ~int64](t *rapid.T, label string, least, most N) N {
	n := N(rapid.Uint64().Draw(t, label) * 0x9E3779B97F4A7C15 >> 1)
	return least + n%(most-least+1)
}
