package main

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets that grow with them: 64 to each doubling, so its quantiles are at most 1.6 % too
// high. The zero value is empty. It is not safe for concurrent use.
type histogram struct {
	buckets [(64 - subBits + 1) << subBits]uint64
	total   uint64
	longest time.Duration
}

const subBits = 6

// bucketOf returns the bucket of a duration: exact for small ones, otherwise by its highest bits.
func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(0, bits.Len64(v)-subBits-1)
	return shift<<subBits + int(v>>shift)
}

// upperBound returns the longest duration that is counted in a bucket.
func upperBound(bucket int) time.Duration {
	if bucket < 2<<subBits {
		return time.Duration(bucket)
	}
	shift := bucket>>subBits - 1
	top := uint64(bucket - shift<<subBits)
	return time.Duration((top+1)<<shift - 1)
}

func (h *histogram) add(d time.Duration) {
	h.buckets[bucketOf(d)]++
	h.total++
	h.longest = max(h.longest, d)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	h.total += other.total
	h.longest = max(h.longest, other.longest)
}

// quantile returns the duration that the given share of all durations does not exceed.
func (h *histogram) quantile(part float64) time.Duration {
	rank := uint64(part * float64(h.total))
	var seen uint64
	for i, n := range h.buckets {
		if seen += n; n > 0 && seen >= rank {
			return min(upperBound(i), h.longest)
		}
	}
	return h.longest
}

// over returns how many durations exceed d, to the precision of a bucket.
func (h *histogram) over(d time.Duration) (n uint64) {
	for _, in := range h.buckets[bucketOf(d)+1:] {
		n += in
	}
	return n
}
