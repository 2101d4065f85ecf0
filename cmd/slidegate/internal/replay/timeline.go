package replay

import (
	"time"

	"github.com/slidegate/slidegate/rule"
)

// maxBuckets is the maximum number of buckets of a Timeline.
const maxBuckets = 480

// widths are the possible widths of a timeline's buckets, chosen to be easy to read. Each divides the next, so that
// buckets can be merged as the traffic turns out to be longer.
var widths = micros(
	time.Millisecond, 10*time.Millisecond, 100*time.Millisecond,
	time.Second, 5*time.Second, 10*time.Second, 30*time.Second,
	time.Minute, 5*time.Minute, 10*time.Minute, 30*time.Minute,
	time.Hour, 3*time.Hour, 6*time.Hour, 12*time.Hour,
	day, 7*day, 28*day, 364*day, 3640*day, 36400*day,
)

const day = 24 * time.Hour

func micros(durations ...time.Duration) []rule.Micros {
	var all []rule.Micros
	for _, d := range durations {
		all = append(all, rule.Micros(d.Microseconds()))
	}
	return all
}

// timeline counts requests over time. It starts with the narrowest buckets and widens them when there are too many.
type timeline struct {
	width   int // an index into widths
	first   int64
	buckets []Bucket
}

// at returns the bucket of a time. A time before the first bucket, which only occurs in a request that came too late to
// be sorted, is counted in the first bucket.
func (t *timeline) at(now rule.Micros) *Bucket {
	index := int64(now / widths[t.width])
	if len(t.buckets) == 0 {
		t.first = index
	}
	for index-t.first >= maxBuckets {
		t.widen()
		index = int64(now / widths[t.width])
	}
	offset := max(0, index-t.first)
	for int64(len(t.buckets)) <= offset {
		t.buckets = append(t.buckets, Bucket{})
	}
	return &t.buckets[offset]
}

func (t *timeline) widen() {
	factor := int64(widths[t.width+1] / widths[t.width])
	first := t.first / factor
	wide := t.buckets[:0]
	for i, b := range t.buckets {
		offset := (t.first+int64(i))/factor - first
		if offset < int64(len(wide)) {
			wide[offset].Admitted += b.Admitted
			wide[offset].Refused += b.Refused
		} else {
			wide = append(wide, b)
		}
	}
	t.width, t.first, t.buckets = t.width+1, first, wide
}

func (t *timeline) findings() Timeline {
	width := widths[t.width]
	return Timeline{From: rule.Micros(t.first) * width, Width: width, Buckets: t.buckets}
}
